/** Everybody's analyses: filters, a page of rows that follow events, and actions on many at once. */

import { html, useEffect, useRef, useState } from "../dom.js";
import { duration } from "../format.js";
import { go, link } from "../router.js";
import { REASONS, STATES } from "../states.js";
import { Empty, Loaded, State, Time } from "../ui.js";
import { Bulk } from "./bulk.js";
import { Breakable, analyses, useLive } from "./live.js";

const PAGE = 50;
const FILTERS = ["state", "title", "recordset", "submitter"];
const TEXTS = { title: "Method", recordset: "Recordset", submitter: "Submitter" };

export function Analyses({ query }) {
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) || null]));
  const cursor = query.get("cursor");
  const [selected, setSelected] = useState(new Map());
  const list = useLive("/v1/jobs", { ...filter, limit: PAGE, cursor }, { milliseconds: 1500 });
  useEffect(() => setSelected(new Map()), [query.toString()]);
  useEffect(() => {
    if (!list.data) return;
    const known = new Map(list.data.jobs.map((job) => [job.id, job]));
    setSelected((before) => new Map([...before.keys()].filter((id) => known.has(id)).map((id) => [id, known.get(id)])));
  }, [list.data]);
  return html`
    <${Filters} filter=${filter} />
    <${Loaded} of=${list} what="Loading the analyses">
      ${(data) => html`
        <${Bulk} filter=${filter} selected=${selected} rows=${data.jobs} more=${Boolean(data.cursor || cursor)} onDone=${list.reload} />
        ${data.jobs.length === 0
          ? html`<${Nothing} filter=${filter} cursor=${cursor} />`
          : html`<${Rows} jobs=${data.jobs} selected=${selected} onSelect=${setSelected} busy=${list.loading} />`}
        <nav class="row" aria-label="Pages">
          ${cursor && html`<a class="button" href=${link("dashboard", "analyses", filter)}>Newest</a>`}
          ${data.cursor && html`<a class="button" href=${link("dashboard", "analyses", { ...filter, cursor: data.cursor })}>Older</a>`}
        </nav>
      `}
    <//>
  `;
}

function Filters({ filter }) {
  const [typed, setTyped] = useState(filter);
  const known = JSON.stringify(filter);
  useEffect(() => setTyped(filter), [known]);
  const apply = (changes) => go(link("dashboard", "analyses", { ...typed, ...changes }));
  const submit = (event) => {
    event.preventDefault();
    apply({});
  };
  const any = FILTERS.some((name) => filter[name]);
  return html`<form class="filters" role="search" aria-label="Filter the analyses" onSubmit=${submit}>
    <label>
      State
      <select value=${filter.state || ""} onChange=${(event) => apply({ state: event.target.value })}>
        <option value="">Any</option>
        ${Object.entries(STATES).map(([state, { label }]) => html`<option key=${state} value=${state}>${label}</option>`)}
      </select>
    </label>
    ${Object.entries(TEXTS).map(
      ([name, text]) => html`<label key=${name}>
        ${text}
        <input
          name=${name}
          autocomplete="off"
          spellcheck=${false}
          value=${typed[name] || ""}
          onInput=${(event) => setTyped({ ...typed, [name]: event.target.value.trim() })}
        />
      </label>`,
    )}
    <button type="submit">Filter</button>
    ${any && html`<a class="button quiet" href=${link("dashboard", "analyses")}>Clear</a>`}
  </form>`;
}

function Nothing({ filter, cursor }) {
  if (cursor) return html`<${Empty} title="There are no older ones."><//>`;
  return FILTERS.some((name) => filter[name])
    ? html`<${Empty} title="No analysis fits.">
        <p>Names must be whole and exact. <a href=${link("dashboard", "analyses")}>Show all</a></p>
      <//>`
    : html`<${Empty} title="There are no analyses yet."><p>They appear here as they are submitted.</p><//>`;
}

function Rows({ jobs, selected, onSelect, busy }) {
  const all = useRef(null);
  const some = selected.size > 0 && selected.size < jobs.length;
  useEffect(() => {
    all.current.indeterminate = some;
  }, [some]);
  const toggle = (job) => {
    const next = new Map(selected);
    if (!next.delete(job.id)) next.set(job.id, job);
    onSelect(next);
  };
  const toggleAll = () => onSelect(selected.size === jobs.length ? new Map() : new Map(jobs.map((job) => [job.id, job])));
  return html`<div class="card table" aria-busy=${busy}>
    <table class="analyses">
      <caption class="unseen">Analyses, newest first; ${analyses(selected.size)} selected</caption>
      <thead>
        <tr>
          <th scope="col"><input ref=${all} type="checkbox" aria-label="Select all on this page" checked=${selected.size === jobs.length} onChange=${toggleAll} /></th>
          <th scope="col">State</th>
          <th scope="col">Analysis</th>
          <th scope="col" class="wide-only">Submitter</th>
          <th scope="col" class="wide-only">Submitted</th>
          <th scope="col" class="wide-only">Details</th>
        </tr>
      </thead>
      <tbody>
        ${jobs.map(
          (job) => html`<tr key=${job.id} data-selected=${selected.has(job.id) ? "yes" : null}>
            <td><input type="checkbox" aria-label=${`Select ${job.title} ${job.id}`} checked=${selected.has(job.id)} onChange=${() => toggle(job)} /></td>
            <td><${State} state=${job.state} /></td>
            <th scope="row">
              <a href=${link("jobs", job.id)}><${Breakable} name=${job.title} /></a> <code class="dim">${job.id}</code>
              <div class="dim small">${source(job)}</div>
              <div class="dim small narrow-only">${job.submitter} · <${Time} at=${job.submitted_at} /></div>
              <div class="small narrow-only">${what(job)}</div>
            </th>
            <td class="wide-only"><a href=${link("dashboard", "analyses", { submitter: job.submitter })}>${job.submitter}</a></td>
            <td class="wide-only nowrap"><${Time} at=${job.submitted_at} /></td>
            <td class="wide-only small">${what(job)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function source(job) {
  const from = job.recordset || (job.set_token && "a set") || (job.attached && "attached records") || "records not known";
  return job.frames ? `${from}, ${job.frames.total} runs` : from;
}

/** The most telling thing of it, on one line. */
function what(job) {
  if (job.error) return REASONS[job.error.reason] || job.error.message;
  if (job.why) return job.why.text;
  return job.usage?.wall_seconds ? `ran ${duration(job.usage.wall_seconds)}` : "";
}
