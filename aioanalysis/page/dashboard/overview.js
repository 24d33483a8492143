/** How things stand: analyses by state, throughput, waiting times, methods that are held. */

import { html, useState } from "../dom.js";
import { duration, number } from "../format.js";
import { link } from "../router.js";
import { STATES } from "../states.js";
import { Empty, Icon, Loaded, Time } from "../ui.js";
import { Chart, roundTicks, timeTicks } from "./charts.js";
import { SIGNS, analyses, useLive } from "./live.js";

const HOURS = { 1: "1 hour", 3: "3 hours", 6: "6 hours", 12: "12 hours", 24: "1 day" };

export function Overview() {
  const [hours, setHours] = useState(matchMedia("(max-width: 44rem)").matches ? "6" : "3");
  const statistics = useLive("/v1/statistics", { hours }, { milliseconds: 5000 });
  const workers = useLive("/v1/workers", {}, { milliseconds: 5000, every: SIGNS });
  return html`<${Loaded} of=${statistics} what="Counting the analyses">
    ${(data) =>
      data.jobs === 0
        ? html`<${Empty} title="There are no analyses yet.">
            <p>Whatever is submitted in the next 7 days is counted here.</p>
          <//>`
        : html`
            <${Held} methods=${data.held_methods} />
            <${Tiles} states=${data.states} workers=${workers.data} />
            <div class="row apart">
              <p class="dim small">
                ${analyses(data.jobs)} of the last 7 days, as of <${Time} at=${data.at} />.
                Removed and expired ones count no more.
              </p>
              <label class="inline small">
                Bars of
                <select value=${hours} onChange=${(event) => setHours(event.target.value)}>
                  ${Object.entries(HOURS).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
                </select>
              </label>
            </div>
            <div class="columns charts">
              <${Throughput} data=${data} />
              <${WaitingTimes} data=${data} />
            </div>
          `}
  <//>`;
}

function Tiles({ states, workers }) {
  const alive = workers?.workers.filter((worker) => worker.alive) || [];
  const slots = alive.reduce((sum, worker) => sum + (worker.slots || 0), 0);
  const busy = alive.reduce((sum, worker) => sum + worker.running.length, 0);
  return html`<ul class="tiles">
    ${Object.entries(STATES)
      .filter(([state]) => states[state] > 0)
      .map(
        ([state, { label, shape }]) => html`<li key=${state}>
          <a href=${link("dashboard", "analyses", { state })} class="tile state" data-state=${state}>
            <strong>${number(states[state], 0)}</strong>
            <span><${Icon} shape=${shape} /> ${label}</span>
          </a>
        </li>`,
      )}
    ${workers &&
    html`<li>
      <a href=${link("dashboard", "workers")} class=${`tile ${alive.length ? "" : "warn"}`}>
        <strong>${number(alive.length, 0)}</strong>
        <span>
          ${!alive.length && html`<${Icon} shape="alert" /> `}${alive.length === 1 ? "worker" : "workers"}
          ${alive.length > 0 && html`, ${busy}/${slots} busy`}
        </span>
      </a>
    </li>`}
  </ul>`;
}

function Held({ methods }) {
  if (!methods.length) return null;
  return html`<div class="notice warn">
    <p><strong>${methods.length === 1 ? "A method is held" : `${methods.length} methods are held`}: its packages fail in a row.</strong></p>
    ${methods.map(
      (method) => html`<p key=${method.title}>
        <strong>${method.title}</strong> since <${Time} at=${method.since} />: ${method.evidence}.
        ${" "}<a href=${link("dashboard", "analyses", { state: "blocked", title: method.title })}>What it holds</a>
      </p>`,
    )}
    <p class="dim small">It is released by another version of the method on the workers, or by releasing one of its analyses.</p>
  </div>`;
}

const ENDS = ["complete", "failed", "killed"];

function Throughput({ data }) {
  const rate = (bucket, state) => bucket[state] / data.bucket_hours;
  const total = (state) => data.buckets.reduce((sum, bucket) => sum + bucket[state], 0);
  const bars = (bucket) => {
    let from = 0;
    return ENDS.filter((state) => bucket[state]).map((state) => {
      const part = { name: `bar ${state}`, from, to: from + rate(bucket, state) };
      from = part.to;
      return part;
    });
  };
  const busiest = data.buckets.reduce((best, bucket) => Math.max(best, ENDS.reduce((sum, state) => sum + rate(bucket, state), 0)), 0);
  const description =
    `In the last 7 days ${total("complete")} analyses completed, ${total("failed")} failed and ${total("killed")} were killed; ` +
    `at most ${number(busiest)} an hour. The figures follow as a table.`;
  return html`<${Chart}
    title="Analyses ended an hour"
    description=${description}
    buckets=${data.buckets}
    series=${ENDS.map((state) => ({ name: `bar ${state}`, label: STATES[state].label }))}
    bars=${bars}
    ticks=${(highest) => roundTicks(highest, (value) => number(value, 2))}
    columns=${[
      ...ENDS.map((state) => ({ text: STATES[state].label, value: (bucket) => bucket[state] })),
      { text: "Submitted", value: (bucket) => bucket.submitted },
    ]}
  />`;
}

function WaitingTimes({ data }) {
  const bars = ({ waiting }) =>
    waiting
      ? [
          { name: "bar p95", from: 0, to: waiting.p95 },
          { name: "bar median", from: 0, to: waiting.median },
        ]
      : [];
  const all = data.waiting;
  const description = all
    ? `Over the last 7 days half of ${all.jobs} analyses began within ${duration(all.median)} of their submission, ` +
      `95 of 100 within ${duration(all.p95)}. The figures follow as a table.`
    : "Nothing has begun in the last 7 days.";
  return html`<${Chart}
    title="Waiting time, submission to start"
    description=${description}
    buckets=${data.buckets}
    series=${[
      { name: "bar median", label: all ? `Half within ${duration(all.median)}` : "Half within" },
      { name: "bar p95", label: all ? `95 % within ${duration(all.p95)}` : "95 % within" },
    ]}
    bars=${bars}
    ticks=${(highest) => timeTicks(highest, (value) => (value ? short(value) : "0"))}
    columns=${[
      { text: "Half within", value: ({ waiting }) => (waiting ? duration(waiting.median) : "–") },
      { text: "95 % within", value: ({ waiting }) => (waiting ? duration(waiting.p95) : "–") },
      { text: "Started", value: ({ waiting }) => waiting?.jobs || 0 },
    ]}
  />`;
}

/** 5400 s → "1.5 h": an axis has little room. */
function short(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${number(seconds / 60)} min`;
  return `${number(seconds / 3600)} h`;
}
