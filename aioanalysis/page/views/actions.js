/** What a user can do with a job in its present state. */

import { call } from "../api.js";
import { announce, html, useState } from "../dom.js";
import { go, link } from "../router.js";
import { ACTIONS, FINISHED } from "../states.js";
import { Confirm, Problem } from "../ui.js";

const REMOVE = {
  label: "Remove",
  text: "Delete it with all its files.",
  confirm: "The analysis is deleted with all its files. This cannot be undone.",
  danger: true,
  remove: true,
};
const FORCE = {
  ...REMOVE,
  label: "Remove by force",
  text: "End what runs and delete it with all its files.",
  confirm: "What runs is ended, and the analysis is deleted with all its files. This cannot be undone.",
  force: true,
};
const RETRY_ALL = { ...ACTIONS.retry, label: "Retry all runs", text: "The complete ones, too.", query: { all: true } };

export function Actions({ job, session, onChanged }) {
  const [asking, setAsking] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const offered = offeredFor(job, session);

  const perform = async (action) => {
    setBusy(true);
    setProblem(null);
    try {
      if (action.remove) {
        await call("DELETE", `/v1/jobs/${job.id}`, { query: { force: action.force } });
        announce(`Analysis ${job.id} was removed.`);
        go(link("jobs"));
        return;
      }
      onChanged(await call("POST", `/v1/jobs/${job.id}/actions/${action.path}`, { query: action.query }));
    } catch (found) {
      setProblem(found);
    }
    setBusy(false);
  };
  const chosen = (action) => (action.confirm ? setAsking(action) : perform(action));
  const answered = (yes) => {
    const action = asking;
    setAsking(null);
    if (yes) perform(action);
  };

  return html`
    <div class="row" role="group" aria-label="Actions">
      <a class="button" href=${link("new", job.title, { from: job.id })} title="A new analysis, filled in as this one">Resubmit with changes</a>
      ${offered.map(
        (action) =>
          html`<button key=${action.label} type="button" class=${action.danger ? "danger" : null} title=${action.text} disabled=${busy} onClick=${() => chosen(action)}>
            ${action.label}
          </button>`,
      )}
    </div>
    <${Problem} problem=${problem} />
    ${asking &&
    html`<${Confirm} title=${`${asking.label}?`} yes=${asking.label} danger=${asking.danger} onAnswer=${answered}>
      <p>${asking.confirm}</p>
    <//>`}
  `;
}

function offeredFor(job, session) {
  const fitting = Object.entries(ACTIONS)
    .filter(([name]) => job.actions.includes(name) && !(name === "block_now" && !started(job)) && !(name === "block" && job.state === "blocked"))
    .map(([, action]) => action);
  if (job.frames && FINISHED.has(job.state) && job.actions.includes("retry")) fitting.push(RETRY_ALL);
  if (job.actions.includes("remove")) fitting.push(REMOVE);
  else if (session.role !== "user") fitting.push(FORCE);
  return fitting;
}

/** Before anything runs, to hold it is the same as to stop and hold it. */
function started(job) {
  return ["running", "failing", "retrying"].includes(job.state);
}
