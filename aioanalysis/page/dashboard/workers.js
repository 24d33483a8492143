/** The workers that have given a sign of life: what they are, and what they run. */

import { html } from "../dom.js";
import { bytes, count } from "../format.js";
import { link } from "../router.js";
import { Empty, Icon, Loaded, Time } from "../ui.js";
import { Meter, SIGNS, useLive } from "./live.js";

const WORDS = {
  running: { label: "At work", shape: "tick", look: "complete" },
  low_disk: { label: "Disk full: claims nothing", shape: "alert", look: "blocked" },
  draining: { label: "Stopping: finishes its runs", shape: "arc", look: "waiting" },
  stopped: { label: "Stopped", shape: "stop", look: "waiting" },
};
const SILENT = { label: "Not seen lately", shape: "alert", look: "failed" };

export function Workers() {
  const list = useLive("/v1/workers", {}, { kinds: ["job", "progress"], milliseconds: 2500, every: SIGNS });
  return html`<${Loaded} of=${list} what="Looking for workers">
    ${({ workers: found, unreadable }) => {
      const workers = found.toSorted((one, other) => one.worker.localeCompare(other.worker));
      const alive = workers.filter((worker) => worker.alive);
      const others = workers.filter((worker) => !worker.alive);
      return html`
        ${alive.length === 0 &&
        html`<${Empty} title="No worker is alive.">
          <p>Analyses wait in the queue until one starts: <code>aioanalysis worker</code> on an analysis host.</p>
        <//>`}
        ${alive.length > 0 &&
        html`<ul class="workers">
          ${alive.map((worker) => html`<${Worker} key=${worker.worker} worker=${worker} />`)}
        </ul>`}
        ${others.length > 0 &&
        html`<details class="more" open=${alive.length === 0}>
          <summary>${count(others.length, "worker")} stopped or not seen lately</summary>
          <ul class="workers">
            ${others.map((worker) => html`<${Worker} key=${worker.worker} worker=${worker} />`)}
          </ul>
        </details>`}
        ${unreadable.length > 0 && html`<p class="dim small">What these say cannot be read: ${unreadable.join(", ")}</p>`}
      `;
    }}
  <//>`;
}

function Worker({ worker }) {
  const words = worker.alive || worker.state === "stopped" ? WORDS[worker.state] || WORDS.running : SILENT;
  const { free_bytes: free, reserve_bytes: reserve } = worker.disk;
  return html`<li class="card">
    <div class="row apart">
      <h2 class="mono">${worker.worker}</h2>
      <span class="state" data-state=${words.look}><${Icon} shape=${words.shape} />${words.label}</span>
    </div>
    ${worker.alive && html`<${Runs} worker=${worker} />`}
    <dl class="facts small">
      <dt>Host</dt>
      <dd>${worker.host || "unknown"}</dd>
      <dt>Runs analyses in</dt>
      <dd>${worker.runtime === "process" ? "child processes (no isolation)" : worker.engine || worker.runtime || "unknown"}</dd>
      <dt>Room on disk</dt>
      <dd>${free === null ? "unknown" : `${bytes(free)} free; claims nothing below ${bytes(reserve)}`}</dd>
      <dt>Version</dt>
      <dd>${worker.service_version || "unknown"}</dd>
      <dt>Last seen</dt>
      <dd><${Time} at=${worker.seen_at} />${worker.started_at && html`, started <${Time} at=${worker.started_at} />`}</dd>
    </dl>
    <details class="more small">
      <summary>${count(worker.methods.length, "method")}</summary>
      <ul class="plain columns-of-text">
        ${worker.methods.map(
          (method) => html`<li key=${method.title}>${method.title} <span class="dim" title=${method.digest}>${method.version}</span></li>`,
        )}
      </ul>
    </details>
  </li>`;
}

function Runs({ worker }) {
  const slots = worker.slots || worker.running.length;
  return html`<div class="stack">
    <p class="row">
      <${Meter} value=${worker.running.length} max=${slots} label="Places taken" />
      <span>${worker.running.length} of ${count(slots, "place")} taken</span>
    </p>
    <ul class="plain">
      ${worker.running.map((run) => html`<${Run} key=${run.stem} run=${run} />`)}
      ${worker.finishing.map((run) => html`<${Run} key=${`${run.stem} ${run.attempt}`} run=${run} finishing />`)}
    </ul>
  </div>`;
}

function Run({ run, finishing }) {
  return html`<li>
    ${run.job ? html`<a href=${link("jobs", run.job)}>${run.title}</a> <code class="dim">${run.job}</code>` : run.stem}
    ${run.frame !== null && html`, run ${run.frame}`}${run.attempt > 1 && html`, attempt ${run.attempt}`}
    ${run.since && html`<span class="dim small">, since <${Time} at=${run.since} /></span>`}
    ${finishing && html`<span class="dim small">, has run: its result is being stored</span>`}
  </li>`;
}
