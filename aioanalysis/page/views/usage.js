/** What a run uses of the machine, while it lasts and afterwards. */

import { call } from "../api.js";
import { LineChart } from "../chart.js";
import { html, throttled, useEffect, useEvents, useLoad, useMemo } from "../dom.js";
import { bytes, duration, moment, number } from "../format.js";
import { Empty, Loaded } from "../ui.js";

const PAUSE = 1000;

export function Usage({ run }) {
  const loaded = useLoad((signal) => call("GET", run.usage, { signal }).catch(absent), [run.usage, run.attempt]);
  const soon = useMemo(() => throttled(loaded.refresh, PAUSE), [loaded.refresh]);
  useEvents((kind, data) => {
    if (kind === "reset" || (kind === "progress" && data.id === run.job && data.frame === run.number)) soon();
  });
  useEffect(soon, [run.state]);
  return html`<${Loaded} of=${loaded} what="Loading the figures">
    ${({ usage, limits }) =>
      usage
        ? html`<${Figures} usage=${usage} limits=${limits} />`
        : html`<${Empty} title="No figures.">
            <p>${run.state === "running" ? "They come with the first sample." : "This run was not measured."}</p>
          <//>`}
  <//>`;
}

/** A run of which nothing is told, yet or any more. */
function absent(problem) {
  if (problem.status !== 404) throw problem;
  return { usage: null, limits: null };
}

function Figures({ usage, limits }) {
  const { series } = usage;
  const start = series.length ? Date.parse(series[0].at) : 0;
  const over = (name) => series.map((point) => [(Date.parse(point.at) - start) / 1000, point[name]]);
  const percent = (value) => `${number(value, value < 10 ? 1 : 0)} %`;
  const tell = ({ mean, max }, shown) => `Mean ${mean === null ? "unknown" : shown(mean)}, highest ${max === null ? "unknown" : shown(max)}.`;
  return html`
    <section class="card" aria-label="In short">
      <dl class="facts">
        ${usage.finished_at ? html`<dt>Ran for</dt><dd>${duration(usage.wall_seconds)}</dd>` : html`<dt>Running since</dt><dd>${moment(usage.started_at)}</dd>`}
        <dt>CPU</dt><dd>${tell(usage.cpu_percent, percent)} 100 % is one core.${usage.cpu_seconds === null ? "" : ` CPU time: ${duration(usage.cpu_seconds)}.`}</dd>
        <dt>Memory</dt><dd>${tell(usage.memory_bytes, bytes)}</dd>
        <dt>Limits</dt><dd>${told(limits, usage.memory_bytes.limit)}</dd>
        <dt>Network</dt><dd>${bytes(usage.network_bytes)}</dd>
        <dt>Disk</dt><dd>${bytes(usage.block_bytes)}</dd>
        <dt>Measured</dt><dd>${usage.samples} times, every ${number(usage.interval_seconds)} s</dd>
      </dl>
    </section>
    ${series.length
      ? html`<div class="columns">
          <section class="card"><h2>CPU over time</h2>
            <${LineChart} title="CPU" description=${tell(usage.cpu_percent, percent)} points=${over("cpu_percent")} limit=${limits.cpus === null ? null : limits.cpus * 100} shownX=${duration} shownY=${percent} colour="cpu" />
          </section>
          <section class="card"><h2>Memory over time</h2>
            <${LineChart} title="Memory" description=${tell(usage.memory_bytes, bytes)} points=${over("memory_bytes")} limit=${usage.memory_bytes.limit} shownX=${duration} shownY=${bytes} colour="memory" base=${2} />
          </section>
        </div>`
      : html`<${Empty} title="No curve."><p>The run ended before it could be measured often enough.</p><//>`}
  `;
}

function told(limits, memory) {
  const found = [
    limits.cpus && (limits.cpus === 1 ? "1 core" : `${number(limits.cpus)} cores`),
    (memory || limits.memory_bytes) && `${bytes(memory || limits.memory_bytes)} of memory`,
    limits.run_seconds && `${duration(limits.run_seconds)} of time`,
    limits.output_bytes && `${bytes(limits.output_bytes)} of files`,
  ].filter(Boolean);
  return found.length ? found.join(", ") : "none told";
}
