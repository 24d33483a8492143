/** The caller's analyses of the last 7 days, live. */

import { html, useState } from "../dom.js";
import { count } from "../format.js";
import { useJobs } from "../live.js";
import { useLabels } from "../methods.js";
import { go, link } from "../router.js";
import { Stages } from "../stages.js";
import { REASONS, STATES } from "../states.js";
import { Empty, Heading, Loaded, State, Time } from "../ui.js";

const GIST = 200;
const GROUPS = {
  unfinished: { label: "Not finished", states: ["waiting", "queued", "running", "blocked", "failing", "retrying"] },
  ...Object.fromEntries(Object.entries(STATES).map(([state, { label }]) => [state, { label, states: [state] }])),
};

export function Jobs({ query, session }) {
  const label = useLabels();
  const state = GROUPS[query.get("state")] ? query.get("state") : "";
  const title = query.get("method") || "";
  const [words, setWords] = useState("");
  const jobs = useJobs({ submitter: session.user, state: state ? GROUPS[state].states : [], title, limit: 100 });
  const filter = (part) => go(link("jobs", { state, method: title, ...part }));
  return html`
    <div class="row apart">
      <${Heading}>Analyses<//>
      <a class="button primary" href=${link("new")}>New analysis</a>
    </div>
    <div class="filters">
      <label>State
        <select value=${state} onChange=${(event) => filter({ state: event.target.value })}>
          <option value="">All</option>
          ${Object.entries(GROUPS).map(([name, one]) => html`<option key=${name} value=${name}>${one.label}</option>`)}
        </select>
      </label>
      <label>Find
        <input type="search" placeholder="Id, method, recordset, tag" value=${words} onInput=${(event) => setWords(event.target.value)} />
      </label>
      ${title && html`<button type="button" onClick=${() => filter({ method: "" })}>Only ${label(title)} — show all</button>`}
    </div>
    <${Loaded} of=${jobs} what="Loading your analyses">
      ${(data) => html`<${List} ...${data} more=${jobs.more} words=${words} label=${label} filtered=${Boolean(state || title)} />`}
    <//>
  `;
}

function List({ jobs, cursor, more, words, label, filtered }) {
  const [busy, setBusy] = useState(false);
  if (!jobs.length && !filtered) {
    return html`<${Empty} title="No analyses yet.">
      <p>They are kept here for 7 days.</p>
      <a class="button primary" href=${link("new")}>Start one</a>
    <//>`;
  }
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = jobs.filter((job) => {
    const told = [job.id, job.title, label(job.title), job.recordset, ...job.tags].join(" ").toLowerCase();
    return wanted.every((word) => told.includes(word));
  });
  const next = async () => {
    setBusy(true);
    await more().finally(() => setBusy(false));
  };
  return html`
    ${shown.length
      ? html`<ul class="jobs">${shown.map((job) => html`<${Row} key=${job.id} job=${job} label=${label} />`)}</ul>`
      : html`<${Empty} title="No analysis fits."><p><a href=${link("jobs")}>Show all</a></p><//>`}
    ${cursor && html`<div><button type="button" disabled=${busy} onClick=${next}>${busy ? "Loading …" : "Show older ones"}</button></div>`}
  `;
}

function Row({ job, label }) {
  const run = !job.frames && job.state === "running" && job.progress?.[0];
  return html`<li>
    <div><${State} state=${job.state} /></div>
    <div class="what">
      <a class="name" href=${link("jobs", job.id)}>${label(job.title)}</a>
      <p class="dim small">
        ${sourceOf(job)}${job.frames && ` · ${framesOf(job.frames)}`}
        ${job.tags.map((tag) => html` <span key=${tag} class="tag">${tag}</span>`)}
      </p>
      ${run && html`<${Stages} progress=${run} compact />`}
      ${job.why && !run && html`<p class="small">${job.why.text}</p>`}
      ${job.error && job.state !== "killed" && html`<p class="small reason">${REASONS[job.error.reason]} <span class="dim">${gistOf(job.error)}</span></p>`}
    </div>
    <div class="side small dim"><code>${job.id}</code><${Time} at=${job.submitted_at} /></div>
  </li>`;
}

/** What says most of an error on one line: the last that the stage printed, else its message. */
export function gistOf({ error, message }) {
  const last = (error || "").trimEnd().split("\n").at(-1).trim();
  return last ? (last.length > GIST ? `${last.slice(0, GIST)} …` : last) : message;
}

export function sourceOf(job) {
  const size = job.packaged_count ?? job.record_count;
  const records = size === null ? "" : count(size, "record");
  if (job.recordset) return records ? `${job.recordset}, ${records}` : job.recordset;
  if (job.set_token) return records ? `A set, ${records}` : "A set";
  return records ? `A file, ${records}` : "A file";
}

export function framesOf({ total, by_state }) {
  const told = Object.entries(by_state).map(([state, some]) => `${some} ${STATES[state].label.toLowerCase()}`);
  return total ? `${count(total, "run")}: ${told.join(", ")}` : "several runs";
}
