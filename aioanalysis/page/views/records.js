/** Which records an analysis is about: where they come from, and which of them. */

import { html, useState } from "../dom.js";
import { Choices, Field } from "../field.js";
import { bytes, count } from "../format.js";

const SOURCES = [
  { value: "recordset", label: "A recordset", help: "By its code in the record store." },
  { value: "set_token", label: "A set", help: "By the token that the workbench gave for a selection." },
  { value: "file", label: "A file of yours", help: "JSON Lines, one record a line, plain or gzip." },
];
const SELECTIONS = [
  { value: "all", label: "All of them" },
  { value: "include", label: "Only some, by their ids" },
  { value: "exclude", label: "All but some, by their ids" },
];

export function Records({ form, change, at, mend, job, recent }) {
  const attached = job?.attached && {
    value: "attached",
    label: `The records of ${job.id}`,
    help: job.record_count === null ? "They are taken along." : `${count(job.record_count, "record")}, taken along.`,
  };
  const codes = [...new Set(recent.map((one) => one.recordset).filter(Boolean))];
  const choose = (source) => {
    mend("/recordset");
    mend("/set_token");
    mend("/records");
    change({ source });
  };
  const typed = (name) => (event) => {
    mend(`/${name}`);
    change({ [name]: event.target.value });
  };
  return html`
    <div class="columns">
      <${Choices}
        name="source"
        label="Where they come from"
        choices=${attached ? [attached, ...SOURCES] : SOURCES}
        value=${form.source}
        onChange=${choose}
      />
      <div>
        ${form.source === "recordset" &&
        html`<${Field} id="recordset" label="Recordset code" help=${codes.length ? "Those used of late are suggested." : "As in DS-EXAMPLE."} wrong=${at("/recordset")}>
          ${(attributes) =>
            html`<input ...${attributes} list="codes" value=${form.recordset} onInput=${typed("recordset")} autocomplete="off" spellcheck="false" />
              <datalist id="codes">${codes.map((code) => html`<option key=${code} value=${code} />`)}</datalist>`}
        <//>`}
        ${form.source === "set_token" &&
        html`<${Field} id="set_token" label="Set token" wrong=${at("/set_token")}>
          ${(attributes) => html`<input ...${attributes} value=${form.set_token} onInput=${typed("set_token")} autocomplete="off" spellcheck="false" />`}
        <//>`}
        ${form.source === "file" && html`<${FileField} file=${form.file} wrong=${at("/records")} onFile=${(file) => {
          mend("/records");
          change({ file });
        }} />`}
      </div>
    </div>
    <div class="columns">
      <${Choices} name="selection" label="Which of them" choices=${SELECTIONS} value=${form.selection} onChange=${(selection) => change({ selection })} />
      ${form.selection !== "all" &&
      html`<${Field} id="ids" label="Record ids or process ids" help="One a line, or parted by commas." wrong=${at("/selection")}>
        ${(attributes) =>
          html`<textarea ...${attributes} value=${form.ids} spellcheck="false" onInput=${(event) => {
            mend("/selection");
            change({ ids: event.target.value });
          }} />`}
      <//>`}
    </div>
  `;
}

function FileField({ file, wrong, onFile }) {
  const [over, setOver] = useState(false);
  const dropped = (event) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer.files.length) onFile(event.dataTransfer.files[0]);
  };
  const dragged = (event) => {
    event.preventDefault();
    setOver(true);
  };
  return html`<div class="drop" data-over=${over ? "yes" : null} onDragOver=${dragged} onDragLeave=${() => setOver(false)} onDrop=${dropped}>
    <${Field} id="records" label="File of records" help="Choose it, or drop it here." wrong=${wrong}>
      ${(attributes) =>
        html`<input ...${attributes} type="file" accept=".jsonl,.ndjson,.json,.gz" onChange=${(event) => onFile(event.target.files[0] || null)} />`}
    <//>
    ${file && html`<p role="status"><strong>${file.name}</strong> <span class="dim">${bytes(file.size)}</span></p>`}
  </div>`;
}
