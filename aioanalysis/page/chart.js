/** Lines over time as an inline SVG, with a limit; the same figures follow as a table for who cannot see it. */

import { html, useWidth } from "./dom.js";

const WIDTHS = [240, 640];
const HEIGHT = 190;
const LEFT = 62;
const RIGHT = 10;
const TOP = 14;
const BOTTOM = 24;
const TICKS = 4;
const SHOWN = 40;

/**
 * `points` are [[x, y | null]], y from 0; `limit` a y or null; `shownX`, `shownY` write a figure; `steps` are
 * the round numbers that the axis may count in, times a power of `base`.
 */
export function LineChart({ title, description, points, limit, shownX, shownY, colour, base = 10 }) {
  const [place, room] = useWidth(WIDTHS[1]);
  const width = Math.min(WIDTHS[1], Math.max(WIDTHS[0], room)); // so that its text keeps its size
  const known = points.filter(([, y]) => y !== null);
  const xs = points.map(([x]) => x);
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const highest = Math.max(...known.map(([, y]) => y), limit ?? 0);
  const top = niceTop(highest || 1, base);
  const px = (x) => LEFT + (last > first ? (x - first) / (last - first) : 0.5) * (width - LEFT - RIGHT);
  const py = (y) => HEIGHT - BOTTOM - (y / top) * (HEIGHT - TOP - BOTTOM);
  const levels = Array.from({ length: TICKS + 1 }, (_, index) => (top * index) / TICKS);
  const parts = width < 400 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const marks = last > first ? parts.map((part) => first + part * (last - first)) : [first];
  const id = `chart-${title.replaceAll(/\W+/g, "-")}`;
  return html`<figure class="stack" ref=${place}>
    <svg class="chart" viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-labelledby="${id}-title ${id}-text">
      <title id="${id}-title">${title}</title>
      <desc id="${id}-text">${description}</desc>
      ${levels.map(
        (y) => html`<g key=${y}>
          <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${py(y)} y2=${py(y)} />
          <text x=${LEFT - 6} y=${py(y) + 4} text-anchor="end">${shownY(y)}</text>
        </g>`,
      )}
      ${marks.map(
        (x, index) =>
          html`<text key=${x} x=${px(x)} y=${HEIGHT - 6} text-anchor=${index === 0 && marks.length > 1 ? "start" : index === marks.length - 1 && marks.length > 1 ? "end" : "middle"}>${shownX(x)}</text>`,
      )}
      ${limit !== null &&
      limit !== undefined &&
      html`<line class="limit" x1=${LEFT} x2=${width - RIGHT} y1=${py(limit)} y2=${py(limit)} />
        <text class="limit-text" x=${width - RIGHT} y=${py(limit) - 4} text-anchor="end">limit ${shownY(limit)}</text>`}
      ${runsOf(points).map((run, index) =>
        run.length > 1
          ? html`<polyline key=${index} class="line" stroke="var(--${colour})" points=${run.map(([x, y]) => `${px(x)},${py(y)}`).join(" ")} />`
          : html`<circle key=${index} fill="var(--${colour})" r="3.5" cx=${px(run[0][0])} cy=${py(run[0][1])} />`,
      )}
    </svg>
    <details class="small">
      <summary>The figures as a table</summary>
      <div class="scroll preview" tabindex="0" role="region" aria-label=${`${title}, figures`}>
        <table class="data">
          <thead><tr><th scope="col">Time</th><th scope="col">${title}</th></tr></thead>
          <tbody>
            ${thinned(points).map(([x, y]) => html`<tr key=${x}><td>${shownX(x)}</td><td>${y === null ? "unknown" : shownY(y)}</td></tr>`)}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

/** What is known in a row, without what lies beside a gap. */
function runsOf(points) {
  const runs = [[]];
  for (const point of points) {
    if (point[1] === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  return runs.filter((run) => run.length);
}

function thinned(points) {
  const step = Math.max(1, Math.ceil(points.length / SHOWN));
  return points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

/** The least round figure that is `highest` or more: 1, 2, 4 or 8 (base 2), else 1, 2, 4, 6, 8 of a power of ten. */
function niceTop(highest, base) {
  if (base === 2) return 2 ** Math.ceil(Math.log2(highest));
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * [1, 2, 4, 6, 8, 10].find((step) => step * power >= highest * 0.9999);
}
