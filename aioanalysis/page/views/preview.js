/** A look at one file: a table, a picture, a tree, a report, or text. */

import { text } from "../api.js";
import { html, useLoad } from "../dom.js";
import { bytes, number } from "../format.js";
import { parseNewick } from "../newick.js";
import { parseTable } from "../tables.js";
import { Tree } from "../tree.js";
import { Empty, Loaded } from "../ui.js";

const MOST_BYTES = 1_000_000;
const MOST_ROWS = 500;
const KINDS = {
  csv: "table", tsv: "table",
  png: "picture", jpg: "picture", jpeg: "picture", gif: "picture", svg: "picture",
  nwk: "tree", newick: "tree", tre: "tree", tree: "tree",
  html: "report", htm: "report",
  json: "json",
  txt: "text", log: "text", md: "text", jsonl: "text", fasta: "text", fas: "text", fa: "text", nex: "text", xml: "text",
  dot: "text", sh: "text", py: "text", r: "text", yaml: "text", yml: "text", toml: "text", ini: "text", err: "text", out: "text",
};

export function Preview({ file }) {
  const name = file.path.split("/").at(-1);
  const kind = KINDS[name.split(".").at(-1).toLowerCase()];
  const Shown = { picture: Picture, report: Page, table: Table, tree: Newick, json: Json, text: Text }[kind] || None;
  return html`<section class="stack" aria-labelledby="file-title">
    <div class="row apart">
      <h2 id="file-title">${file.path}</h2>
      <a class="button" href=${file.link} download=${name}>Download <span class="dim">${bytes(file.size)}</span></a>
    </div>
    <${Shown} file=${file} name=${name} />
  </section>`;
}

function None() {
  return html`<${Empty} title="No preview of this kind of file."><p>Download it to open it with a program of its own.</p><//>`;
}

function Picture({ file, name }) {
  return html`<img class="picture" src=${file.link} alt=${`Picture ${name}`} />`;
}

function Page({ file, name }) {
  return html`<iframe class="report" title=${name} sandbox="" src=${file.link}></iframe>`;
}

/** Loads the text's beginning; `children({text, whole})`. */
function Content({ file, children }) {
  const loaded = useLoad((signal) => text(file.link, { most: MOST_BYTES, signal }), [file.link]);
  return html`<${Loaded} of=${loaded} what="Reading the file">${children}<//>`;
}

function Cut() {
  return html`<p class="dim small">Only the beginning is shown. Download the file for all of it.</p>`;
}

function Text({ file }) {
  return html`<${Content} file=${file}>
    ${({ text: found, whole }) => html`<${Plain} text=${found} />${!whole && html`<${Cut} />`}`}
  <//>`;
}

function Plain({ text: found }) {
  if (!found) return html`<${Empty} title="The file is empty." />`;
  return html`<pre class="output tall" tabindex="0" role="region" aria-label="Content">${found}</pre>`;
}

function Json({ file }) {
  return html`<${Content} file=${file}>
    ${({ text: found, whole }) => html`<${Plain} text=${whole ? pretty(found) : found} />${!whole && html`<${Cut} />`}`}
  <//>`;
}

function pretty(found) {
  try {
    return JSON.stringify(JSON.parse(found), null, 2);
  } catch {
    return found;
  }
}

function Table({ file, name }) {
  const separator = name.toLowerCase().endsWith(".tsv") ? "\t" : ",";
  return html`<${Content} file=${file}>
    ${({ text: found, whole }) => {
      const rows = parseTable(found, separator, MOST_ROWS + 2);
      if (!whole) rows.pop();
      return html`<${Rows} rows=${rows} name=${name} whole=${whole} />`;
    }}
  <//>`;
}

function Rows({ rows, name, whole }) {
  if (!rows.length) return html`<${Empty} title="The table is empty." />`;
  const [head, ...all] = rows;
  const body = all.slice(0, MOST_ROWS);
  const numeric = head.map((_, column) => body.length > 0 && body.every((row) => !row[column] || isNumber(row[column])) && body.some((row) => row[column]));
  return html`<div class="scroll preview" tabindex="0" role="region" aria-label=${`Table ${name}`}>
      <table class="data">
        <thead><tr>${head.map((cell, column) => html`<th key=${column} scope="col" class=${numeric[column] ? "number" : null}>${cell}</th>`)}</tr></thead>
        <tbody>
          ${body.map((row, line) => html`<tr key=${line}>${head.map((_, column) => html`<td key=${column} class=${numeric[column] ? "number" : null} title=${(row[column] || "").length > 40 ? row[column] : null}>${row[column] ?? ""}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>
    ${whole && all.length <= MOST_ROWS
      ? html`<p class="dim small">${number(all.length, 0)} rows.</p>`
      : html`<p class="dim small">The first ${number(body.length, 0)} rows. Download the file for all of them.</p>`}`;
}

function isNumber(cell) {
  return cell.trim() !== "" && Number.isFinite(Number(cell));
}

function Newick({ file }) {
  return html`<${Content} file=${file}>
    ${({ text: found, whole }) => {
      const root = whole ? parseNewick(found) : null;
      return root ? html`<${Tree} root=${root} />` : html`<p class="dim small">This cannot be drawn; here is its text.</p><${Plain} text=${found} />`;
    }}
  <//>`;
}
