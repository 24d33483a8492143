/** One analysis: its state and reason, what can be done, and what it has left. */

import { call } from "../api.js";
import { html, throttled, useEvents, useLoad, useRef } from "../dom.js";
import { useJob } from "../live.js";
import { useLabels } from "../methods.js";
import { go, link } from "../router.js";
import { STATES } from "../states.js";
import { Copy, Empty, Heading, Loading, Problem, State, Tabs, Time } from "../ui.js";
import { Actions } from "./actions.js";
import { Files } from "./files.js";
import { Frames } from "./frames.js";
import { History } from "./history.js";
import { Log } from "./log.js";
import { Overview } from "./overview.js";
import { Usage } from "./usage.js";

export function Job({ id, tab, query, session }) {
  const job = useJob(id);
  const frames = useFrames(id, job.data);
  const label = useLabels();
  if (job.removed) {
    return html`<${Heading}>Removed<//>
      <${Empty} title="This analysis was removed."><p><a href=${link("jobs")}>Your analyses</a></p><//>`;
  }
  if (!job.data) {
    if (job.problem?.status === 404) {
      return html`<${Heading}>Not found<//>
        <${Empty} title="There is no such analysis.">
          <p>Analyses are kept for 7 days. <a href=${link("jobs")}>Your analyses</a></p>
        <//>`;
    }
    return job.problem ? html`<${Problem} problem=${job.problem} again=${job.reload} />` : html`<${Loading} what="Loading the analysis" />`;
  }
  return html`<${Panel} ...${{ tab: tab || "overview", query, session, job: job.data, frames, label }} setJob=${(next) => job.setData(() => next)} />
    <${Problem} problem=${job.problem} again=${job.reload} />`;
}

/** The frames of a job that has some, told anew (not too often) while they change. */
function useFrames(id, job) {
  const wanted = Boolean(job?.frames);
  const loaded = useLoad(
    async (signal) => (wanted ? (await call("GET", `/v1/jobs/${encodeURIComponent(id)}/frames`, { signal })).frames : []),
    [id, wanted],
  );
  const reload = useRef(throttled(() => loaded.refresh(), 1000));
  useEvents((kind, data) => {
    if (wanted && (kind === "reset" || (kind === "job" && data.job === id))) reload.current();
  });
  return loaded;
}

function Panel({ tab, query, session, job, frames, label, setJob }) {
  const runs = frames.data || [];
  const number = job.frames ? Number(query.get("frame")) || bestOf(tab, runs) : null;
  const frame = number === null ? null : runs.find((one) => one.number === number);
  const run = runOf(job, frame);
  const tabs = tabsOf(job, runs);
  const shown = tabs.some((one) => one.name === tab) ? tab : "overview";
  return html`
    <div class="stack">
      <p class="small"><a href=${link("jobs")}>All analyses</a></p>
      <div class="row apart">
        <div class="row"><${Heading} title=${`${label(job.title)} ${job.id}`}>${label(job.title)}<//><${State} state=${job.state} /></div>
        <p class="dim small"><code>${job.id}</code> <${Copy} text=${job.id} label="Copy the id" /> submitted <${Time} at=${job.submitted_at} />${session.user === job.submitter ? "" : ` by ${job.submitter}`}</p>
      </div>
      <${Actions} job=${job} session=${session} onChanged=${setJob} />
    </div>
    <${Tabs} label="Parts of this analysis" current=${shown} tabs=${tabs.map((one) => ({ ...one, href: link("jobs", job.id, one.name, { frame: one.framed ? number : null }) }))} />
    ${frame && tabs.find((one) => one.name === shown)?.framed && html`<${ChooseFrame} ...${{ job, runs, number, tab: shown }} />`}
    ${shown === "overview" && html`<${Overview} job=${job} runs=${runs} label=${label} />`}
    ${shown === "runs" && html`<${Frames} job=${job} frames=${frames} />`}
    ${shown === "report" && html`<${Report} run=${run} />`}
    ${shown === "files" && html`<${Files} key=${number} run=${run} job=${job} number=${number} path=${query.get("path")} />`}
    ${shown === "log" && html`<${Log} key=${`${number} ${run.attempt} ${run.state === "running"}`} run=${run} />`}
    ${shown === "usage" && html`<${Usage} key=${number} run=${run} />`}
    ${shown === "history" && html`<${History} job=${job} />`}
  `;
}

/** What the tabs are about: the job's only run, or one of its frames. */
function runOf(job, frame) {
  const one = frame || job;
  const search = frame ? `?frame=${frame.number}` : "";
  const place = `/v1/jobs/${job.id}`;
  return {
    state: one.state,
    attempt: one.attempt,
    job: job.id,
    number: frame ? frame.number : null,
    links: one.links,
    files: `${place}/files${search}`,
    log: `${place}/log${search}`,
    usage: `${place}/usage${search}`,
    search,
  };
}

function tabsOf(job, runs) {
  const all = job.frames ? runs : [job];
  const states = new Set(all.map((run) => run.state));
  const left = all.some(hasLeftSomething);
  const under = states.has("running") || states.has("retrying");
  return [
    { name: "overview", label: "Overview" },
    job.frames && { name: "runs", label: "Runs" },
    states.has("complete") && { name: "report", label: "Report", framed: true },
    left && { name: "files", label: "Files", framed: true },
    (left || under) && { name: "log", label: "Output", framed: true },
    (left || under) && { name: "usage", label: "CPU and memory", framed: true },
    { name: "history", label: "History" },
  ].filter(Boolean);
}

function hasLeftSomething({ links }) {
  return Boolean(links.result || links.failed_result);
}

/** The frame that a tab shows unless one is chosen. */
function bestOf(tab, runs) {
  const wanted = tab === "log" || tab === "usage" ? ["running", "failed", "complete"] : ["complete", "failed"];
  for (const state of wanted) {
    const found = runs.find((run) => run.state === state);
    if (found) return found.number;
  }
  return 1;
}

function ChooseFrame({ job, runs, number, tab }) {
  return html`<label class="inline">
    Run
    <select value=${number} onChange=${(event) => go(link("jobs", job.id, tab, { frame: event.target.value }))}>
      ${runs.map((run) => html`<option key=${run.number} value=${run.number}>${run.number}: ${STATES[run.state].label.toLowerCase()}</option>`)}
    </select>
  </label>`;
}

/** What the method wrote, where it can run nothing and reach nothing. */
function Report({ run }) {
  if (!run.links.report) return html`<${Empty} title="This run has no report." />`;
  return html`<div class="stack">
    <div class="row">
      <a class="button" href=${run.links.report} target="_blank" rel="noopener">Open in a tab of its own</a>
      <a class="button" href=${run.links.report} download="analysis_report.html">Download the report</a>
    </div>
    <iframe class="report" title="Report" sandbox="" src=${run.links.report}></iframe>
  </div>`;
}
