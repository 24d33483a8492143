/** An analysis at a glance: how far it is or why it failed, what it left, and how it was asked for. */

import { html, useLoad, useNow } from "../dom.js";
import { duration, moment, relative, value } from "../format.js";
import { loadMethods } from "../methods.js";
import { link } from "../router.js";
import { fieldsOf } from "../schema.js";
import { Stages } from "../stages.js";
import { ADVICE, FINISHED, REASONS, STATES } from "../states.js";
import { State, Time } from "../ui.js";
import { framesOf, sourceOf } from "./jobs.js";
import { KeptLink, useKept } from "./kept.js";

const TAIL = 4000;
const SHOWN = 4;
const CONDITIONS = { complete: "is complete", failed: "has failed", killed: "was killed", finished: "has ended" };

export function Overview({ job, runs, label }) {
  return html`
    ${!FINISHED.has(job.state) && html`<${Unfinished} job=${job} runs=${runs} />`}
    ${job.error && html`<${Failure} error=${job.error} job=${job} />`}
    ${(job.links.result || job.links.failed_result) && html`<${Left} job=${job} />`}
    <div class="columns">
      <section class="card" aria-labelledby="asked-title">
        <h2 id="asked-title">Asked for</h2>
        <${Facts} job=${job} label=${label} />
      </section>
      <section class="card" aria-labelledby="params-title">
        <h2 id="params-title">Parameters</h2>
        <${Parameters} job=${job} />
      </section>
    </div>
    ${(job.attempts.length > 1 || job.state === "killed") && !job.frames && html`<${Attempts} job=${job} />`}
  `;
}

function Unfinished({ job, runs }) {
  const now = useNow(5);
  const { why } = job;
  const running = (job.progress || []).filter((one) => one.frame === null || runs.some((run) => run.number === one.frame && run.state === "running"));
  const expected = [
    why?.position && ["Place in line", why.position],
    why?.until && ["Looked at again", relative(why.until, now), why.until],
    why?.expected_start && ["Expected start", relative(why.expected_start, now), why.expected_start],
    why?.expected_finish && ["Expected end", relative(why.expected_finish, now), why.expected_finish],
  ].filter(Boolean);
  const shown = running.slice(0, SHOWN);
  const held = job.state === "blocked" || job.state === "failing";
  return html`<section class="notice ${held ? "warn" : "busy"}" aria-label="How far it is">
    ${shown.map((one) => html`<div key=${one.frame} class="wide">
      ${one.frame !== null && html`<p class="small"><strong>Run ${one.frame}</strong></p>`}
      <${Stages} progress=${one} />
    </div>`)}
    ${why && !(shown.length && why.code === "running") && html`<p>${why.text}</p>`}
    ${expected.length > 0 && html`<dl class="facts small">
      ${expected.map(([name, told, at]) => html`<dt key=${name}>${name}</dt><dd title=${at && moment(at)}>${told}</dd>`)}
    </dl>`}
  </section>`;
}

function Failure({ error, job }) {
  const printed = error.error || "";
  return html`<section class="notice ${job.state === "failed" ? "bad" : "warn"}" aria-labelledby="failure-title">
    <p><strong id="failure-title">${REASONS[error.reason]}</strong></p>
    <p>${error.script ? html`Step <code>${error.script}</code>: ${error.message}` : sentence(error.message)}</p>
    <p class="dim">${ADVICE[error.reason]}</p>
    ${printed && html`<div class="wide stack">
      <pre class="output" tabindex="0" role="region" aria-label="The end of what it printed">${printed.slice(-TAIL)}</pre>
      ${job.state === "failed" && !job.frames && html`<p class="small"><a href=${link("jobs", job.id, "log")}>All of the output</a></p>`}
    </div>`}
  </section>`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function Left({ job }) {
  const { links, frames } = job;
  return html`<section class="card" aria-labelledby="left-title">
    <h2 id="left-title">${links.result ? "Results" : "What the failed run left"}</h2>
    <div class="row">
      ${links.report && html`<a class="button primary" href=${link("jobs", job.id, "report")}>${frames ? "Reports" : "Read the report"}</a>`}
      ${links.result && html`<a class="button" href=${links.result} download>Download ${frames ? "all packages" : "the package"} (zip)</a>`}
      ${links.failed_result && html`<a class="button" href=${links.failed_result} download>Download ${frames ? "the failed packages" : "the failed package"} (zip)</a>`}
      <a class="button" href=${link("jobs", job.id, "files")}>Look at the files</a>
    </div>
  </section>`;
}

function Facts({ job, label }) {
  return html`<dl class="facts">
    <dt>Method</dt><dd>${label(job.title)}</dd>
    <dt>Records</dt><dd>${sourceOf(job)}${selected(job.selection)}</dd>
    ${job.frames && html`<dt>Runs</dt><dd>${framesOf(job.frames)}</dd>`}
    ${job.split && html`<dt>Parted</dt><dd>${job.split.by ? `by ${job.split.by}` : `${job.split.records} records each`}</dd>`}
    ${job.after.length > 0 && html`<dt>Waits until</dt><dd>
      ${job.after.map((one) => html`<p key=${one.job}><a href=${link("jobs", one.job)}><code>${one.job}</code></a> ${CONDITIONS[one.when]}${one.each ? ", run by run" : ""}${one.seen ? html` <${State} state=${one.seen} />` : ""}</p>`)}
    </dd>`}
    ${job.resubmitted_from && html`<dt>Made from</dt><dd><a href=${link("jobs", job.resubmitted_from)}><code>${job.resubmitted_from}</code></a></dd>`}
    ${job.retries > 0 && html`<dt>Retries</dt><dd>up to ${job.retries}</dd>`}
    ${job.tags.length > 0 && html`<dt>Tags</dt><dd>${job.tags.map((tag) => html`<span key=${tag} class="tag">${tag}</span> `)}</dd>`}
    ${!FINISHED.has(job.state) && html`<dt>Time limit</dt><dd><${Time} at=${job.deadline} /></dd>`}
    ${job.usage?.wall_seconds !== null && job.usage && html`<dt>Ran for</dt><dd>${duration(job.usage.wall_seconds)}</dd>`}
    <dt>Kept until</dt><dd>${moment(job.expires_at)}</dd>
  </dl>`;
}

function selected(selection) {
  if (!selection) return "";
  const ids = selection.include || selection.exclude;
  return selection.include ? `; only ${ids.length} of them chosen` : `; ${ids.length} left out`;
}

/** By their titles where the method tells some; what was not given is as the method has it. */
function Parameters({ job }) {
  const { data } = useLoad(() => loadMethods(), []);
  const method = data?.methods.find((one) => one.title === job.title);
  const fields = method ? fieldsOf(method.parameters) : [];
  const rows = fields.map(({ name, schema }) => [schema.title || name, name in job.params ? job.params[name] : schema.default, name in job.params]);
  for (const [name, given] of Object.entries(job.params)) {
    if (!fields.some((field) => field.name === name)) rows.push([name, given, true]);
  }
  if (!rows.length) return html`<p class="dim">None.</p>`;
  return html`<dl class="facts params">
    ${rows.map(([name, given, own]) => html`<dt key=${name}>${name}</dt><dd class=${own ? null : "dim"}>${given === undefined ? "none" : value(given)}</dd>`)}
  </dl>`;
}

function Attempts({ job }) {
  const kept = useKept(job, null);
  if (!job.attempts.length) return null;
  return html`<section class="card table" aria-labelledby="attempts-title">
    <h2 id="attempts-title" class="pad">Runs so far</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="attempts-title">
      <table>
        <thead><tr><th scope="col">Run</th><th scope="col">Ended</th><th scope="col">When</th><th scope="col">Host</th><th scope="col">What was wrong</th><th scope="col">What it left</th></tr></thead>
        <tbody>
          ${job.attempts.map((one) => html`<tr key=${one.attempt}>
            <td>${one.attempt}</td>
            <td>${STATES[one.ending]?.label.toLowerCase() || one.ending.replaceAll("_", " ")}</td>
            <td>${one.finished_at ? html`<${Time} at=${one.finished_at} />` : "unknown"}</td>
            <td>${one.host || "unknown"}</td>
            <td>${one.error ? one.error.message : "nothing"}</td>
            <td><${KeptLink} run=${job} attempt=${one.attempt} kept=${kept.data} /></td>
          </tr>`)}
        </tbody>
      </table>
    </div>
  </section>`;
}
