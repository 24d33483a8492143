/** A tree as an inline SVG: root at the left, branches as long as told, tips below each other. */

import { html } from "./dom.js";
import { count, number } from "./format.js";

const ROW = 16;
const DRAWN = 420;
const PAD = 12;
const LETTER = 6.7;
const MOST = 2000;

export function Tree({ root }) {
  const { tips, lines, depth } = layout(root);
  if (tips.length > MOST) return html`<p>${count(tips.length, "tip")}: too many to draw here. Download the file for a tree viewer.</p>`;
  const longest = Math.max(...tips.map((tip) => tip.name.length));
  const width = PAD * 3 + DRAWN + longest * LETTER;
  const height = PAD * 2 + tips.length * ROW + 24;
  const x = (distance) => PAD + (depth ? distance / depth : 0) * DRAWN;
  const y = (row) => PAD + (row + 0.5) * ROW;
  const scale = roundScale(depth);
  return html`<div class="scroll preview" tabindex="0" role="region" aria-label="Tree">
      <svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="tree-title">
        <title id="tree-title">Tree of ${count(tips.length, "tip")}: ${tips.slice(0, 40).map((tip) => tip.name).join("; ")}${tips.length > 40 ? "; and more" : ""}</title>
        <path class="tree" d=${lines.map(([x1, y1, x2, y2]) => `M${x(x1)} ${y(y1)}L${x(x2)} ${y(y2)}`).join("")} />
        ${tips.map((tip) => html`<text key=${tip.row} class="tree-label" x=${x(tip.distance) + 5} y=${y(tip.row) + 4}>${tip.name}</text>`)}
        ${depth > 0 &&
        html`<path class="tree" d=${`M${PAD} ${height - 22}h${(scale / depth) * DRAWN}`} /><text class="tree-label" x=${PAD} y=${height - 8}>${number(scale, 6)}</text>`}
      </svg>
    </div>
    <p class="dim small">${count(tips.length, "tip")}.</p>`;
}

/** Rows and distances from the root, without recursion: trees can be deep. Without lengths each step is 1. */
function layout(root) {
  const order = [];
  const stack = [{ node: root, distance: 0 }];
  let any = false;
  while (stack.length) {
    const place = stack.pop();
    order.push(place);
    any ||= place.node.length > 0;
    place.children = place.node.children.map((child) => ({ node: child }));
    stack.push(...place.children.toReversed());
  }
  const tips = [];
  for (const place of order) {
    place.distance ??= 0;
    for (const child of place.children) child.distance = place.distance + (any ? Math.max(0, child.node.length) : 1);
    if (!place.children.length) {
      place.row = tips.length;
      tips.push({ name: place.node.name, distance: place.distance, row: place.row });
    }
  }
  const lines = [];
  for (const place of order.toReversed()) {
    if (!place.children.length) continue;
    const rows = place.children.map((child) => child.row);
    const [first, last] = [rows[0], rows.at(-1)];
    place.row = (first + last) / 2;
    lines.push([place.distance, first, place.distance, last]);
    for (const child of place.children) lines.push([place.distance, child.row, child.distance, child.row]);
  }
  return { tips, lines, depth: tips.reduce((most, tip) => Math.max(most, tip.distance), 0) };
}

/** A round length of about a fifth of the tree's depth. */
function roundScale(depth) {
  if (!depth) return 0;
  const wanted = depth / 5;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return power * [5, 2, 1].find((step) => step * power <= wanted);
}
