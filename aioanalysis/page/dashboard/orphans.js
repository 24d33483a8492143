/** What storage holds in all, and the files of no analysis: listed first, swept when asked. */

import { announce, html, useLoad, useState } from "../dom.js";
import { call } from "../api.js";
import { bytes, count, duration, number } from "../format.js";
import { Confirm, Empty, Loaded, Problem, Time } from "../ui.js";
import { Breakable, Table } from "./live.js";

const PATIENCE = 300; // seconds: both containers are listed whole
const KINDS = {
  package: "packages waiting for a worker",
  claim: "packages taken by a worker",
  result: "result packages",
  failed_result: "packages of failed runs",
  sidecar: "descriptions of packages",
  attempt: "earlier runs",
  snapshot: "records of split analyses",
  progress: "progress of runs",
  control: "orders to workers",
  worker: "signs of life of workers",
  foreign: "foreign files",
};
const REASONS = {
  expired: { label: "Expired", text: "Its analysis has had its time; nobody can ask for it any more." },
  replaced: { label: "Replaced", text: "Its analysis is gone, and another has the same id." },
  worker: { label: "Worker gone", text: "The sign of life of a worker that has not been seen for as long as analyses are kept." },
  unknown: {
    label: "Unknown",
    text: "No record of its analysis, whose time may not be over. After a loss of the job store, aioanalysis rebuild can make the record again; once swept it cannot.",
  },
  foreign: { label: "Foreign", text: "Not named by this service. It is never removed." },
};
const COLUMNS = [
  { text: "File" },
  { text: "Why" },
  { text: "Size", number: true },
  { text: "Modified", wide: true },
];

export function Orphans() {
  const list = useLoad((signal) => call("GET", "/v1/orphans", { signal, seconds: PATIENCE }), []);
  return html`<${Loaded} of=${list} what="Looking through storage">
    ${(data) => html`
      <div class="row apart">
        <p class="dim small">
          As of <${Time} at=${data.at} />. Files ${data.safe_seconds > 0 && html`younger than ${duration(data.safe_seconds)}, or `}held by a worker are left out.
        </p>
        <button type="button" disabled=${list.loading} onClick=${list.reload}>${list.loading ? "Looking …" : "Look again"}</button>
      </div>
      <${Sweep} data=${data} onDone=${list.reload} />
      ${data.files.length > 0 &&
      html`<${Table} caption="Files of no analysis" columns=${COLUMNS}>
        ${data.files.map(
          (file) => html`<tr key=${`${file.container}/${file.name}`}>
            <th scope="row" class="name">
              <a href=${file.link} download><${Breakable} name=${file.name} /></a>
              <div class="dim small">in ${file.container}<span class="narrow-only"> · <${Time} at=${file.modified_at} /></span></div>
            </th>
            <td><span title=${REASONS[file.reason].text}>${REASONS[file.reason].label}</span></td>
            <td class="number nowrap">${bytes(file.size)}</td>
            <td class="wide-only nowrap"><${Time} at=${file.modified_at} /></td>
          </tr>`,
        )}
      <//>`}
      <${Holdings} holdings=${data.holdings} />
    `}
  <//>`;
}

function Sweep({ data, onDone }) {
  const removable = data.reasons.filter((one) => one.removable);
  const [chosen, setChosen] = useState(null);
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState("");
  const [outcome, setOutcome] = useState(null);
  const [problem, setProblem] = useState(null);
  const wanted = removable.filter((one) => (chosen ? chosen.has(one.reason) : one.sure));
  const files = wanted.reduce((sum, one) => sum + one.files, 0);
  const size = wanted.reduce((sum, one) => sum + one.bytes, 0);
  const toggle = (reason) => {
    const next = new Set(wanted.map((one) => one.reason));
    if (!next.delete(reason)) next.add(reason);
    setChosen(next);
  };
  const answered = async (yes) => {
    setAsked(false);
    if (!yes) return;
    setProblem(null);
    setBusy("Sweeping");
    try {
      const done = await sweep(
        wanted.map((one) => one.reason),
        (removed) => setBusy(`Sweeping: ${number(removed, 0)} of ${number(files, 0)}`),
      );
      setOutcome(done);
      announce(`${count(done.files, "file")} removed.`);
    } catch (error) {
      setProblem(error);
    }
    setBusy("");
    onDone();
  };
  return html`
    <${Problem} problem=${problem} title="The sweep did not go through" />
    ${outcome && html`<${Outcome} outcome=${outcome} />`}
    ${data.reasons.length === 0
      ? html`<${Empty} title="There are no orphaned files."><p>Every file in queue and results belongs to an analysis or a worker.</p><//>`
      : html`<fieldset class="card" disabled=${Boolean(busy)}>
          <legend class="unseen">Which files to remove</legend>
          <h2>Files of no analysis</h2>
          ${data.reasons.map(
            (one) => html`<label key=${one.reason} class="choice">
              <input
                type="checkbox"
                disabled=${!one.removable}
                checked=${wanted.includes(one)}
                onChange=${() => toggle(one.reason)}
              />
              <span>
                <strong>${REASONS[one.reason].label}</strong>: ${count(one.files, "file")}, ${bytes(one.bytes)}
                <small>${REASONS[one.reason].text}</small>
              </span>
            </label>`,
          )}
          <div class="row">
            <button type="button" class="danger" disabled=${files === 0} onClick=${() => setAsked(true)}>
              Sweep ${count(files, "file")}${files ? ` (${bytes(size)})` : ""}
            </button>
            ${busy && html`<span class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${busy} …</span>`}
          </div>
        </fieldset>`}
    ${asked &&
    html`<${Confirm} title=${`Remove ${count(files, "file")} for good?`} yes=${`Remove ${number(files, 0)}`} danger onAnswer=${answered}>
      <div class="stack">
        <p>${wanted.map((one) => `${number(one.files, 0)} ${REASONS[one.reason].label.toLowerCase()}`).join(", ")}; ${bytes(size)} in all. This cannot be undone.</p>
        ${wanted.some((one) => !one.sure) && html`<p><strong>Some are of analyses whose records were lost.</strong> ${REASONS.unknown.text}</p>`}
        <p class="dim small">Each is looked at again before: what an analysis has, or a worker holds or writes by then, stays.</p>
      </div>
    <//>`}
  `;
}

function Outcome({ outcome }) {
  const failed = Object.entries(outcome.failed);
  return html`<div class=${`notice ${failed.length ? "warn" : "good"}`}>
    <p><strong>${count(outcome.files, "file")} removed, ${bytes(outcome.bytes)}.</strong></p>
    ${outcome.changed.length > 0 && html`<p class="small">${count(outcome.changed.length, "file")} had changed meanwhile and stayed.</p>`}
    ${failed.slice(0, 10).map(([name, text]) => html`<p key=${name} class="small">${name}: ${text}</p>`)}
  </div>`;
}

/** Sweeps until nothing is left, or nothing more can be removed. */
async function sweep(reasons, onProgress) {
  const sum = { files: 0, bytes: 0, changed: [], failed: {} };
  for (;;) {
    const done = await call("POST", "/v1/orphans/sweep", { body: { reasons, limit: 250 } });
    sum.files += done.removed_files;
    sum.bytes += done.removed_bytes;
    sum.changed.push(...done.changed);
    Object.assign(sum.failed, done.failed);
    onProgress(sum.files);
    if (!done.more || !done.removed_files) return sum;
  }
}

function Holdings({ holdings }) {
  if (!holdings.length) return null;
  return html`<section class="stack" aria-labelledby="holdings">
    <h2 id="holdings">All that storage holds</h2>
    <${Table} caption="Files by kind" columns=${[{ text: "Container" }, { text: "Kind" }, { text: "Files", number: true }, { text: "Size", number: true }]}>
      ${holdings.map(
        (one) => html`<tr key=${`${one.container} ${one.kind}`}>
          <td>${one.container}</td>
          <td>${KINDS[one.kind]}</td>
          <td class="number">${number(one.files, 0)}</td>
          <td class="number nowrap">${bytes(one.bytes)}</td>
        </tr>`,
      )}
    <//>
  </section>`;
}
