/** Charts over time as inline SVG: each with a title, a description, and the same figures as a table. */

import { html, useMemo, useWidth } from "../dom.js";

const LEFT = 52;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 24;
const HEIGHT = 220;
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
const BUCKET = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

let charts = 0;

/**
 * `buckets` are [{start}], evenly spaced. `bars(bucket)` gives what is drawn for one: [{from, to, name}] in the
 * unit of the axis, from below; `ticks(highest)` the axis' marks [{at, text}], the last one its end.
 * `series` are [{name, label}] for the legend, `columns` [{text, value(bucket)}] for the table.
 */
export function Chart({ title, description, buckets, series, bars, ticks, columns }) {
  const [ref, width] = useWidth(640);
  const id = useMemo(() => `chart-${(charts += 1)}`, []);
  const drawn = useMemo(() => buckets.map((bucket) => ({ bucket, parts: bars(bucket) })), [buckets]);
  const marks = ticks(Math.max(0, ...drawn.flatMap(({ parts }) => parts.map((part) => part.to))));
  const top = marks.at(-1).at || 1;
  const step = (width - LEFT - RIGHT) / buckets.length;
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const x = (index) => LEFT + index * step;
  const gap = step > 6 ? 1.5 : step > 3 ? 0.5 : 0;
  return html`<figure class="card figure">
    <figcaption class="stack">
      <h2>${title}</h2>
      <ul class="legend" aria-hidden="true">
        ${series.map(({ name, label }) => html`<li key=${name}><span class=${`swatch ${name}`}></span>${label}</li>`)}
      </ul>
    </figcaption>
    <div ref=${ref}>
      <svg class="chart" viewBox=${`0 0 ${width} ${HEIGHT}`} width=${width} height=${HEIGHT} role="img" aria-labelledby=${`${id}-t`} aria-describedby=${`${id}-d`}>
        <title id=${`${id}-t`}>${title}</title>
        <desc id=${`${id}-d`}>${description}</desc>
        ${marks.map(
          ({ at, text }) => html`<g key=${at}>
            <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(at)} y2=${y(at)} />
            <text x=${LEFT - 6} y=${y(at) + 4} text-anchor="end">${text}</text>
          </g>`,
        )}
        ${days(buckets, width).map(
          ({ index, text }) => html`<g key=${index}>
            <line class="grid" x1=${x(index)} x2=${x(index)} y1=${TOP} y2=${HEIGHT - BOTTOM + 4} />
            <text x=${x(index) + 4} y=${HEIGHT - 7}>${text}</text>
          </g>`,
        )}
        ${drawn.map(
          ({ bucket, parts }, index) => html`<g key=${bucket.start}>
            <title>${[when(bucket), ...columns.map(({ text, value }) => `${text}: ${value(bucket)}`)].join("\n")}</title>
            ${parts.length > 0 && html`<rect class="catch" x=${x(index)} y=${TOP} width=${step} height=${HEIGHT - TOP - BOTTOM} />`}
            ${parts.map(
              ({ name, from, to }) => html`<rect
                key=${name}
                class=${name}
                x=${x(index) + gap / 2}
                y=${Math.min(y(to), y(from) - 1)}
                width=${Math.max(step - gap, 0.8)}
                height=${Math.max(y(from) - y(to), 1)}
              />`,
            )}
          </g>`,
        )}
      </svg>
    </div>
    <details class="more">
      <summary>The figures as a table</summary>
      <div class="scroll preview" role="region" aria-label=${`${title}: figures`} tabindex="0">
        <table class="data">
          <caption class="unseen">${title}</caption>
          <thead><tr>
            <th scope="col">From</th>
            ${columns.map(({ text }) => html`<th key=${text} scope="col" class="number">${text}</th>`)}
          </tr></thead>
          <tbody>
            ${drawn
              .filter(({ parts }) => parts.length)
              .reverse()
              .map(
                ({ bucket }) => html`<tr key=${bucket.start}>
                  <th scope="row">${when(bucket)}</th>
                  ${columns.map(({ text, value }) => html`<td key=${text} class="number">${value(bucket)}</td>`)}
                </tr>`,
              )}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

function when({ start }) {
  return BUCKET.format(new Date(start));
}

/** Where the local days begin, as many as there is room for. */
function days(buckets, width) {
  const found = [];
  let last = null;
  buckets.forEach(({ start }, index) => {
    const day = new Date(start).toDateString();
    if (last !== null && day !== last) found.push({ index, text: DAY.format(new Date(start)) });
    last = day;
  });
  const every = Math.ceil((found.length * 52) / Math.max(width - LEFT, 1));
  return found.filter(({ index }, place) => place % every === 0 && index < buckets.length * (1 - 44 / width));
}

/** Marks at round figures up to what holds `highest`, in steps of 1, 2 or 5 times a power of ten. */
export function roundTicks(highest, text = String) {
  const rough = Math.max(highest, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  return marked(highest, step, text);
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

/** The same for seconds: marks at 10 s, 5 min, 1 h and the like. */
export function timeTicks(highest, text) {
  const step = TIME_STEPS.find((one) => one * 4 >= highest) || Math.ceil(highest / 4 / 86_400) * 86_400;
  return marked(highest, step, text);
}

function marked(highest, step, text) {
  const marks = Math.max(1, Math.ceil(highest / step - 1e-9));
  return Array.from({ length: marks + 1 }, (_, index) => ({ at: index * step, text: text(index * step) }));
}
