/** Actions on many analyses: on those selected, or on all that the filter finds; asked first, with the number. */

import { announce, html, useState } from "../dom.js";
import { call } from "../api.js";
import { ACTIONS, STATES } from "../states.js";
import { Confirm, Problem } from "../ui.js";
import { analyses } from "./live.js";

const FOUND_MAX = 5000;
const ASKED = 500;
const AT_ONCE = 50;

export function Bulk({ filter, selected, rows, more, onDone }) {
  const [asked, setAsked] = useState(null);
  const [busy, setBusy] = useState("");
  const [outcome, setOutcome] = useState(null);
  const [problem, setProblem] = useState(null);

  const working = async (text, work) => {
    setBusy(text);
    setProblem(null);
    try {
      return await work();
    } catch (error) {
      setProblem(error);
      return null;
    } finally {
      setBusy("");
    }
  };
  const ask = async (name) => {
    setOutcome(null);
    const jobs = selected.size
      ? [...selected.values()]
      : await working("Counting what the filter finds", () => (more ? found(filter) : Promise.resolve(rows)));
    if (jobs) setAsked({ name, jobs, fitting: jobs.filter((job) => job.actions.includes(name)) });
  };
  const answered = async (yes) => {
    const { name, fitting } = asked;
    setAsked(null);
    if (!yes) return;
    const label = ACTIONS[name].label;
    const done = await working(label, () => act(name, fitting, (count) => setBusy(`${label}: ${count} of ${fitting.length}`)));
    if (done) {
      setOutcome({ label, ...done });
      announce(`${label}: ${done.done} done, ${done.refused.length} refused.`);
    }
    onDone();
  };
  const filtered = Object.values(filter).some(Boolean);
  const target = selected.size ? `${analyses(selected.size)} selected` : filtered ? "All that the filter finds" : "All analyses";
  return html`
    <div class="bulk" role="group" aria-label="Actions on many">
      <span class="target" aria-live="polite">${target}:</span>
      ${Object.entries(ACTIONS).map(
        ([name, { label, text, danger }]) => html`<button
          key=${name}
          type="button"
          class=${danger ? "danger" : ""}
          title=${text}
          disabled=${Boolean(busy) || rows.length === 0}
          onClick=${() => ask(name)}
        >
          ${label}
        </button>`,
      )}
    </div>
    ${busy && html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${busy} …</p>`}
    <${Problem} problem=${problem} title="The action did not go through" />
    ${outcome && html`<${Outcome} outcome=${outcome} onClose=${() => setOutcome(null)} />`}
    ${asked && html`<${Question} ...${asked} onAnswer=${answered} />`}
  `;
}

function Question({ name, jobs, fitting, onAnswer }) {
  const { label, text, confirm, danger } = ACTIONS[name];
  const others = jobs.length - fitting.length;
  const states = Object.entries(byState(fitting));
  if (!fitting.length) {
    return html`<${Confirm} title=${`${label}: nothing to do`} yes="All right" onAnswer=${() => onAnswer(false)}>
      <p>The present state of ${jobs.length === 1 ? "this analysis" : `none of these ${analyses(jobs.length)}`} allows it.</p>
    <//>`;
  }
  return html`<${Confirm} title=${`${label} ${analyses(fitting.length)}?`} yes=${`${label} ${fitting.length}`} danger=${danger} onAnswer=${onAnswer}>
    <div class="stack">
      <p>${confirm || text}</p>
      <p class="small">${states.map(([state, some]) => `${some.length} ${STATES[state].label.toLowerCase()}`).join(", ")}.</p>
      ${fitting.length <= 8 && html`<ul class="plain small">${fitting.map((job) => html`<li key=${job.id}>${job.title} <code>${job.id}</code> of ${job.submitter}</li>`)}</ul>`}
      ${others > 0 && html`<p class="dim small">${analyses(others)} more ${others === 1 ? "is" : "are"} in a state that does not allow it, and ${others === 1 ? "stays" : "stay"} as ${others === 1 ? "it is" : "they are"}.</p>`}
      ${jobs.length >= FOUND_MAX && html`<p class="dim small">Only the newest ${FOUND_MAX.toLocaleString("en")} were looked at.</p>`}
    </div>
  <//>`;
}

function Outcome({ outcome, onClose }) {
  const { label, done, refused } = outcome;
  const reasons = new Map();
  for (const { detail } of refused) reasons.set(detail, (reasons.get(detail) || 0) + 1);
  return html`<div class=${`notice ${refused.length ? "warn" : "good"}`}>
    <p><strong>${label}: ${done} done${refused.length ? `, ${refused.length} refused` : ""}.</strong></p>
    ${[...reasons].slice(0, 10).map(([detail, times]) => html`<p key=${detail} class="small">${times} × ${detail}</p>`)}
    <button type="button" class="quiet" onClick=${onClose}>Dismiss</button>
  </div>`;
}

function byState(jobs) {
  const groups = {};
  for (const job of jobs) (groups[job.state] ||= []).push(job);
  return groups;
}

/** All that the filter finds, newest first, so that what is asked is what is done. */
async function found(filter) {
  const jobs = [];
  let cursor = null;
  do {
    const page = await call("GET", "/v1/jobs", { query: { ...filter, limit: ASKED, cursor } });
    jobs.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor && jobs.length < FOUND_MAX);
  return jobs.slice(0, FOUND_MAX);
}

/** The action on `jobs`, some at a time: {done, refused: [{id, detail}]}. */
async function act(name, jobs, onProgress) {
  const { path, query = {} } = ACTIONS[name];
  const ids = jobs.map((job) => job.id);
  const refused = [];
  for (let start = 0; start < ids.length; start += AT_ONCE) {
    onProgress(start);
    const answer = await call("POST", `/v1/actions/${path}`, { body: { ids: ids.slice(start, start + AT_ONCE), ...query } });
    refused.push(...answer.outcomes.filter(({ status }) => status >= 400));
  }
  return { done: ids.length - refused.length, refused };
}
