/** What a run used of the machine. */

import { call } from "../api.js";
import { LineChart } from "../chart.js";
import { html, useLoad } from "../dom.js";
import { bytes, duration, number } from "../format.js";
import { Empty, Loading } from "../ui.js";

export function Usage({ run }) {
  const { usage } = run;
  const sidecar = useLoad((signal) => call("GET", run.metadata, { signal }).catch(() => null), [run.metadata]);
  if (!usage) return html`<${Empty} title="No figures."><p>This run was not measured.</p><//>`;
  const cpus = sidecar.data?.limits?.cpus ?? null;
  const series = sidecar.data?.usage?.series || [];
  const start = series.length ? Date.parse(series[0].at) : 0;
  const over = (name) => series.map((point) => [(Date.parse(point.at) - start) / 1000, point[name]]);
  const percent = (value) => `${number(value, value < 10 ? 1 : 0)} %`;
  const tell = ({ mean, max }, shown) => `Mean ${mean === null ? "unknown" : shown(mean)}, highest ${max === null ? "unknown" : shown(max)}.`;
  if (sidecar.loading) return html`<${Loading} what="Loading the figures" />`;
  return html`
    <section class="card" aria-label="In short">
      <dl class="facts">
        <dt>Ran for</dt><dd>${duration(usage.wall_seconds)}</dd>
        <dt>CPU</dt><dd>${tell(usage.cpu_percent, percent)} 100 % is one core.${usage.cpu_seconds === null ? "" : ` ${duration(usage.cpu_seconds)} of CPU time.`}</dd>
        <dt>Memory</dt><dd>${tell(usage.memory_bytes, bytes)}</dd>
        <dt>Limits</dt><dd>${limits(sidecar.data?.limits, usage.memory_bytes.limit)}</dd>
        <dt>Network</dt><dd>${bytes(usage.network_bytes)}</dd>
        <dt>Disk</dt><dd>${bytes(usage.block_bytes)}</dd>
        <dt>Measured</dt><dd>${usage.samples} times, every ${number(usage.interval_seconds)} s</dd>
      </dl>
    </section>
    ${series.length
      ? html`<div class="columns">
          <section class="card"><h2>CPU over time</h2>
            <${LineChart} title="CPU" description=${tell(usage.cpu_percent, percent)} points=${over("cpu_percent")} limit=${cpus === null ? null : cpus * 100} shownX=${duration} shownY=${percent} colour="cpu" />
          </section>
          <section class="card"><h2>Memory over time</h2>
            <${LineChart} title="Memory" description=${tell(usage.memory_bytes, bytes)} points=${over("memory_bytes")} limit=${usage.memory_bytes.limit} shownX=${duration} shownY=${bytes} colour="memory" base=${2} />
          </section>
        </div>`
      : html`<${Empty} title="No curve."><p>The run ended before it could be measured often enough.</p><//>`}
  `;
}

function limits(given, memory) {
  const told = [
    given?.cpus && `${number(given.cpus)} cores`,
    (memory || given?.memory_bytes) && `${bytes(memory || given.memory_bytes)} of memory`,
    given?.run_seconds && `${duration(given.run_seconds)} of time`,
    given?.output_bytes && `${bytes(given.output_bytes)} of files`,
  ].filter(Boolean);
  return told.length ? told.join(", ") : "none told";
}
