/** What most analyses need not: several runs, what to wait for, retries, tags. */

import { html } from "../dom.js";
import { Choices, Field } from "../field.js";
import { STATES } from "../states.js";

const RUNS = [
  { value: "one", label: "One run", help: "Over all the records." },
  { value: "vary", label: "One run for each value of a parameter", help: "Over the same records." },
  { value: "records", label: "Records in parts of a size", help: "One run for each part." },
  { value: "by", label: "Records in parts by a field", help: "One run for each value that the field has." },
  { value: "json", label: "Parameters of each run as JSON" },
];
const CONDITIONS = { complete: "is complete", failed: "has failed", killed: "was killed", finished: "has ended, however" };
const VARIED = new Set(["choice", "number", "integer", "text"]);

export function More(props) {
  const { form } = props;
  const used = form.runs !== "one" || form.after.length || form.hold || form.retries !== "0" || form.tags;
  return html`<details class="card more" open=${Boolean(used)}>
    <summary>More: several runs, order, retries, tags</summary>
    <div class="stack">
      <${Runs} ...${props} />
      <hr class="rule" />
      <${After} ...${props} />
      <hr class="rule" />
      <${Rest} ...${props} />
    </div>
  </details>`;
}

function Runs({ form, fields, change, at, mend }) {
  const varied = fields.filter((field) => VARIED.has(field.kind));
  const typed = (name, where) => (event) => {
    mend(where);
    change({ [name]: event.target.value });
  };
  return html`<div class="columns">
    <${Choices} name="runs" label="Runs" choices=${RUNS.filter((one) => one.value !== "vary" || varied.length)} value=${form.runs} onChange=${(runs) => change({ runs })} />
    <div class="stack">
      ${form.runs === "vary" &&
      html`<${Field} id="vary" label="Parameter">
          ${(attributes) =>
            html`<select ...${attributes} value=${form.vary} onChange=${typed("vary", "/frames")}>
              <option value="">Choose</option>
              ${varied.map((field) => html`<option key=${field.name} value=${field.name}>${field.schema.title || field.name}</option>`)}
            </select>`}
        <//>
        <${Field} id="values" label="Its values, one a line" help=${choices(fields, form.vary)} wrong=${at("/frames")}>
          ${(attributes) => html`<textarea ...${attributes} value=${form.values} spellcheck="false" onInput=${typed("values", "/frames")} />`}
        <//>`}
      ${form.runs === "records" &&
      html`<${Field} id="split-records" label="Records in a part" wrong=${at("/split")}>
        ${(attributes) => html`<input ...${attributes} inputmode="numeric" value=${form.records} onInput=${typed("records", "/split")} />`}
      <//>`}
      ${form.runs === "by" &&
      html`<${Field} id="split-by" label="Field" help="As in family, or country/ocean." wrong=${at("/split")}>
        ${(attributes) => html`<input ...${attributes} value=${form.by} spellcheck="false" onInput=${typed("by", "/split")} />`}
      <//>`}
      ${form.runs === "json" &&
      html`<${Field} id="frames" label="What differs in each run" help=${'As in [{"marker": "COI-5P"}, {"marker": "rbcL"}].'} wrong=${at("/frames")}>
        ${(attributes) => html`<textarea ...${attributes} value=${form.frames} spellcheck="false" onInput=${typed("frames", "/frames")} />`}
      <//>`}
    </div>
  </div>`;
}

function choices(fields, name) {
  const field = fields.find((one) => one.name === name);
  return field?.kind === "choice" ? `Of ${field.schema.enum.map(String).join(", ")}.` : null;
}

function After({ form, change, at, mend, recent }) {
  const put = (index, part) => {
    mend(`/after/${index}`);
    change({ after: form.after.map((one, other) => (other === index ? { ...one, ...part } : one)) });
  };
  const remove = (index) => {
    mend("/after");
    change({ after: form.after.filter((_, other) => other !== index) });
  };
  const add = () => change({ after: [...form.after, { job: "", when: "complete", each: false }] });
  return html`<fieldset class="field">
    <legend>Start only when</legend>
    <datalist id="recent">
      ${recent.map((one) => html`<option key=${one.id} value=${one.id}>${one.title}, ${STATES[one.state].label.toLowerCase()}</option>`)}
    </datalist>
    ${form.after.map(
      (one, index) => html`<div class="row" key=${index}>
        <div class="field" data-wrong=${at(`/after/${index}`) ? "yes" : null}>
          <input
            aria-label="Analysis to wait for, by its id"
            aria-invalid=${at(`/after/${index}`) ? "true" : null}
            placeholder="Its id"
            list="recent"
            value=${one.job}
            autocomplete="off"
            spellcheck="false"
            onInput=${(event) => put(index, { job: event.target.value })}
          />
          ${at(`/after/${index}`) && html`<p class="wrong">${at(`/after/${index}`)}</p>`}
        </div>
        <select aria-label="Which end is waited for" value=${one.when} onChange=${(event) => put(index, { when: event.target.value })}>
          ${Object.entries(CONDITIONS).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
        </select>
        <label class="inline">
          <input type="checkbox" checked=${one.each} onChange=${(event) => put(index, { each: event.target.checked })} />run by run
        </label>
        <button type="button" class="quiet" onClick=${() => remove(index)}>Remove</button>
      </div>`,
    )}
    <button type="button" onClick=${add}>${form.after.length ? "And another analysis" : "Another analysis has ended"}</button>
    <label class="choice">
      <input type="checkbox" checked=${form.hold} onChange=${(event) => change({ hold: event.target.checked })} />
      <span>I release it<small>It is held from the start.</small></span>
    </label>
  </fieldset>`;
}

function Rest({ form, change, at, mend }) {
  const typed = (name) => (event) => {
    mend(`/${name}`);
    change({ [name]: event.target.value });
  };
  return html`<div class="fields">
    <${Field} id="retries" label="Retries" help="How often a failed run is put back by itself, 0 to 10." wrong=${at("/retries")}>
      ${(attributes) => html`<input ...${attributes} inputmode="numeric" value=${form.retries} onInput=${typed("retries")} />`}
    <//>
    <${Field} id="tags" label="Tags" help="Words to find it by, parted by commas." wrong=${at("/tags")}>
      ${(attributes) => html`<input ...${attributes} value=${form.tags} onInput=${typed("tags")} />`}
    <//>
  </div>`;
}
