/** New analysis: which method. */

import { html, useLoad, useState } from "../dom.js";
import { count } from "../format.js";
import { loadMethods } from "../methods.js";
import { link } from "../router.js";
import { Empty, Heading, Loaded } from "../ui.js";

export function Methods() {
  const methods = useLoad(() => loadMethods({ anew: true }), []);
  return html`
    <div class="stack">
      <${Heading}>New analysis<//>
      <p class="dim">Choose a method; its parameters and your records come next.</p>
    </div>
    <${Loaded} of=${methods} what="Loading the methods">${(data) => html`<${Cards} ...${data} />`}<//>
  `;
}

function Cards({ methods, unusable }) {
  const [wanted, setWanted] = useState("");
  if (!methods.length) {
    return html`<${Empty} title="This service has no methods.">
      <p>Its operator puts them into the methods folder.</p>
    <//>`;
  }
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = methods.filter((method) => {
    const told = `${method.label} ${method.title} ${method.description}`.toLowerCase();
    return words.every((word) => told.includes(word));
  });
  return html`
    ${methods.length > 6 &&
    html`<label class="inline">
      <span class="unseen">Search the methods</span>
      <input type="search" placeholder="Search, as in “tree”" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
    </label>`}
    ${shown.length
      ? html`<ul class="methods">
          ${shown.map((method) => html`<${Card} key=${method.title} method=${method} />`)}
        </ul>`
      : html`<${Empty} title="No method fits."><p>Try another word.</p><//>`}
    ${Object.entries(unusable).map(
      ([title, text]) => html`<p key=${title} class="dim small"><strong>${title}</strong> cannot be used: ${text}</p>`,
    )}
  `;
}

function Card({ method }) {
  const parameters = Object.keys(method.parameters.properties || {}).length;
  return html`<li class="card">
    <h2><a href=${link("new", method.title)}>${method.label}</a></h2>
    <p>${method.description}</p>
    <p class="dim small">${count(parameters, "parameter")} · version ${method.version}</p>
  </li>`;
}
