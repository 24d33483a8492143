/** How far a run is: its stages as a row of bars. */

import { html } from "./dom.js";

/** `progress`: {stage, stages, name, message, fraction}. `compact` leaves the words out. */
export function Stages({ progress, compact }) {
  const { stage, stages, message, fraction } = progress;
  const done = fraction === null ? "" : `, ${Math.round(fraction * 100)} % of it done`;
  const name = stageName(progress.name);
  const said = `Stage ${stage} of ${stages}${name ? `, ${name}` : ""}${done}`;
  return html`<div class="stack tight">
    <div class="unseen" role="progressbar" aria-label="Stages" aria-valuemin="0" aria-valuemax=${stages} aria-valuenow=${stage - 1 + (fraction || 0)} aria-valuetext=${said}></div>
    <ol class="stages" aria-hidden="true">
      ${Array.from({ length: stages }, (_, index) => {
        const is = index + 1 < stage ? "done" : index + 1 === stage ? "now" : "next";
        return html`<li key=${index} data-is=${is}>
          <span class="bar">${is === "now" && html`<span class=${fraction === null ? "unknown" : null} style=${fraction === null ? null : { width: `${fraction * 100}%` }} />`}</span>
        </li>`;
      })}
    </ol>
    ${!compact && html`<p class="small"><span>${said}</span>${message && html`<span class="dim">: ${message}</span>`}</p>`}
  </div>`;
}

/** "3_distances.py" → "distances". */
function stageName(script) {
  return script ? script.replace(/^\d+_/, "").replace(/\.[^.]+$/, "").replaceAll("_", " ") : "";
}
