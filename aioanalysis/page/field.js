/** One field of a form: label, control, help and what is wrong with it, tied together for screen readers. */

import { html } from "./dom.js";
import { boundsOf } from "./schema.js";

/** Wraps `children(attributes)`, the control, which takes the attributes. */
export function Field({ id, label, help, wrong, children }) {
  const described = [help && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return html`<div class="field" data-wrong=${wrong ? "yes" : null}>
    <label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described || null, "aria-invalid": wrong ? "true" : null })}
    ${wrong && html`<p class="wrong" id="${id}-wrong">${wrong}</p>`}
    ${help && html`<p class="help" id="${id}-help">${help}</p>`}
  </div>`;
}

/** Radio buttons: `choices` are [{value, label, help}]. */
export function Choices({ name, label, choices, value, onChange, unseen }) {
  return html`<fieldset class="field">
    <legend class=${unseen ? "unseen" : null}>${label}</legend>
    ${choices.map(
      (one) =>
        html`<label class="choice" key=${one.value}>
          <input type="radio" name=${name} checked=${value === one.value} onChange=${() => onChange(one.value)} />
          <span>${one.label}${one.help && html`<small>${one.help}</small>`}</span>
        </label>`,
    )}
  </fieldset>`;
}

/** A parameter of a method; `onChange(raw)` while it is edited, `onLeave()` when that is over. */
export function ParameterField({ field, raw, wrong, onChange, onLeave }) {
  const { name, schema, kind } = field;
  const id = `param-${name}`;
  const label = html`${schema.title || name}${field.required ? html` <span class="dim">(needed)</span>` : ""}`;
  const help = [schema.description, boundsOf(field)].filter(Boolean).join(" ");
  const typed = (event) => onChange(event.target.value);
  if (kind === "flag") {
    return html`<div class="field" data-wrong=${wrong ? "yes" : null}>
      <span class="label" aria-hidden="true">${schema.title || name}</span>
      <label class="choice">
        <input type="checkbox" id=${id} checked=${raw} onChange=${(event) => onChange(event.target.checked)} />
        <span><span class="unseen">${schema.title || name}</span>${raw ? "Yes" : "No"}${
          schema.description && html`<small>${schema.description}</small>`
        }</span>
      </label>
      ${wrong && html`<p class="wrong">${wrong}</p>`}
    </div>`;
  }
  if (kind === "several") return html`<${Several} ...${{ id, field, raw, wrong, onChange, help }} />`;
  return html`<${Field} id=${id} label=${label} help=${help} wrong=${wrong}>
    ${(attributes) => {
      const common = { ...attributes, value: raw, onInput: typed, onBlur: onLeave };
      if (kind === "choice") return html`<${Select} field=${field} common=${common} />`;
      if (kind === "long" || kind === "list" || kind === "json") {
        return html`<textarea ...${common} spellcheck="false" placeholder=${kind === "list" ? "One a line" : null} />`;
      }
      const numeric = kind === "number" || kind === "integer";
      return html`<input ...${common} inputmode=${numeric ? "decimal" : null} autocomplete="off" spellcheck="false" />`;
    }}
  <//>`;
}

function Select({ field, common }) {
  const { schema, required, nullable } = field;
  const none = nullable || (!required && schema.default === undefined);
  return html`<select ...${common}>
    ${none && !schema.enum.includes(null) && html`<option value="">none</option>`}
    ${schema.enum.map((one, index) => html`<option key=${index} value=${index}>${one === null ? "none" : String(one)}</option>`)}
  </select>`;
}

function Several({ id, field, raw, wrong, onChange, help }) {
  const toggle = (one) => {
    const next = new Set(raw);
    if (!next.delete(one)) next.add(one);
    onChange(next);
  };
  return html`<fieldset class="field" aria-describedby=${wrong ? `${id}-wrong` : null}>
    <legend>${field.schema.title || field.name}</legend>
    ${field.schema.items.enum.map(
      (one, index) =>
        html`<label class="choice" key=${one}>
          <input type="checkbox" id=${index ? null : id} checked=${raw.has(one)} onChange=${() => toggle(one)} />
          <span>${String(one)}</span>
        </label>`,
    )}
    ${wrong && html`<p class="wrong" id="${id}-wrong">${wrong}</p>`} ${help && html`<p class="help">${help}</p>`}
  </fieldset>`;
}
