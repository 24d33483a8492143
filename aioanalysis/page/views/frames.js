/** The runs of an analysis that has many. */

import { html, useState } from "../dom.js";
import { count, duration, value } from "../format.js";
import { link } from "../router.js";
import { REASONS, STATES } from "../states.js";
import { Empty, Loaded, State } from "../ui.js";
import { gistOf } from "./jobs.js";
import { Kept } from "./kept.js";

const SHOWN = 200;

export function Frames({ job, frames }) {
  const [state, setState] = useState("");
  const counts = Object.entries(job.frames.by_state);
  return html`
    <div class="filters">
      <label>State
        <select value=${state} onChange=${(event) => setState(event.target.value)}>
          <option value="">All ${job.frames.total}</option>
          ${counts.map(([name, some]) => html`<option key=${name} value=${name}>${STATES[name].label}: ${some}</option>`)}
        </select>
      </label>
    </div>
    <${Loaded} of=${frames} what="Loading the runs">
      ${(all) => html`<${Table} job=${job} frames=${all.filter((one) => !state || one.state === state)} />`}
    <//>
  `;
}

function Table({ job, frames }) {
  const [shown, setShown] = useState(SHOWN);
  if (!frames.length) {
    return html`<${Empty} title="No run."><p>The records are parted once they have been fetched.</p><//>`;
  }
  return html`<div class="card table">
      <div class="scroll" tabindex="0" role="region" aria-label="Runs">
        <table class="runs">
          <thead>
            <tr><th scope="col">Run</th><th scope="col">State</th><th scope="col">Of</th><th scope="col">Took</th><th scope="col">What it left</th></tr>
          </thead>
          <tbody>${frames.slice(0, shown).map((frame) => html`<${Row} key=${frame.number} job=${job} frame=${frame} />`)}</tbody>
        </table>
      </div>
    </div>
    ${frames.length > shown && html`<div><button type="button" onClick=${() => setShown(shown + SHOWN)}>Show more</button></div>`}`;
}

function Row({ job, frame }) {
  const at = (tab) => link("jobs", job.id, tab, { frame: frame.number });
  return html`<tr>
    <th scope="row">${frame.number}</th>
    <td><${State} state=${frame.state} />${frame.error && html`<p class="small dim">${REASONS[frame.error.reason]} ${gistOf(frame.error)}</p>`}</td>
    <td>${whatOf(frame)}</td>
    <td>${frame.usage ? duration(frame.usage.wall_seconds) : ""}</td>
    <td>
      <span class="row">
        ${frame.links.report && html`<a href=${at("report")}>Report</a>`}
        ${(frame.state === "complete" || frame.state === "failed") && html`<a href=${at("files")}>Files</a>`}
        ${frame.state !== "waiting" && frame.state !== "queued" && frame.state !== "blocked" && html`<a href=${at("log")}>Output</a>`}
        ${frame.links.result && html`<a href=${frame.links.result} download>Package</a>`}
        ${frame.links.failed_result && html`<a href=${frame.links.failed_result} download>Failed package</a>`}
      </span>
      ${(frame.attempt > 1 || frame.state === "killed") && html`<${Earlier} job=${job} frame=${frame} />`}
    </td>
  </tr>`;
}

/** Asked for only when it is opened: there may be a thousand. */
function Earlier({ job, frame }) {
  const [open, setOpen] = useState(false);
  return html`<details class="small" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>Earlier attempts</summary>
    ${open && html`<${Kept} job=${{ ...frame, id: job.id }} number=${frame.number} />`}
  </details>`;
}

function whatOf(frame) {
  const told = Object.entries(frame.params).map(([name, given]) => `${name}: ${value(given)}`);
  if (frame.value !== null) told.push(frame.value);
  const size = frame.records ?? frame.packaged_count;
  if (size !== null) told.push(count(size, "record"));
  return told.join(", ");
}
