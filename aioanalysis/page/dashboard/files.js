/** What lies in the two containers, queue and results, with downloads. */

import { html, useEffect, useState } from "../dom.js";
import { bytes } from "../format.js";
import { go, link } from "../router.js";
import { Empty, Icon, Loaded, Time } from "../ui.js";
import { Breakable, Table, useLive } from "./live.js";

const PAGE = 100;
const CONTAINERS = { queue: "Queue", results: "Results" };
const COLUMNS = [
  { text: "File" },
  { text: "Size", number: true },
  { text: "Modified", wide: true },
  { text: "Analysis", wide: true },
];

export function Files({ query }) {
  const container = query.get("container") === "results" ? "results" : "queue";
  const prefix = query.get("prefix") || "";
  const after = query.get("after");
  const files = useLive("/v1/packages", { container, prefix, after, limit: PAGE }, { kinds: ["job", "progress"], milliseconds: 2500 });
  const place = (changes) => link("dashboard", "files", { container, prefix, ...changes });
  return html`
    <${Choice} container=${container} prefix=${prefix} />
    <${Loaded} of=${files} what="Listing the files">
      ${(data) => html`
        ${data.files.length === 0
          ? html`<${Empty} title=${prefix ? "No name begins like that." : after ? "There are no more." : `The ${container === "queue" ? "queue is" : "results are"} empty.`} />`
          : html`<div aria-busy=${files.loading}>
              <${Table} caption=${`Files in ${container}`} columns=${COLUMNS}>
                ${data.files.map((file) => html`<${File} key=${`${file.container}/${file.name}`} file=${file} />`)}
              <//>
            </div>`}
        <nav class="row" aria-label="Pages">
          ${after && html`<a class="button" href=${place({})}>First page</a>`}
          ${data.after && html`<a class="button" href=${place({ after: data.after })}>Next page</a>`}
        </nav>
      `}
    <//>
  `;
}

function Choice({ container, prefix }) {
  const [typed, setTyped] = useState(prefix);
  useEffect(() => setTyped(prefix), [prefix]);
  const choose = (changes) => go(link("dashboard", "files", { container, prefix: typed, ...changes }));
  const submit = (event) => {
    event.preventDefault();
    choose({});
  };
  return html`<form class="filters" role="search" aria-label="Choose files" onSubmit=${submit}>
    <label>
      Container
      <select value=${container} onChange=${(event) => choose({ container: event.target.value })}>
        ${Object.entries(CONTAINERS).map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}
      </select>
    </label>
    <label>
      Name begins with
      <input
        name="prefix"
        autocomplete="off"
        spellcheck=${false}
        pattern="[A-Za-z0-9._\\/\\-]*"
        title="Letters, digits, dots, hyphens, underscores and slashes"
        value=${typed}
        onInput=${(event) => setTyped(event.target.value.trim())}
      />
    </label>
    <button type="submit">List</button>
  </form>`;
}

function File({ file }) {
  return html`<tr>
    <th scope="row" class="name">
      <a href=${file.link} download><${Breakable} name=${file.name} /></a>
      ${file.held && html`<span class="state" data-state="running"><${Icon} shape="tick" />held${file.worker ? ` by ${file.worker}` : ""}</span>`}
      <div class="dim small narrow-only"><${Time} at=${file.modified_at} />${file.job && html` · <${Job} file=${file} />`}</div>
    </th>
    <td class="number nowrap">${bytes(file.size)}</td>
    <td class="wide-only nowrap"><${Time} at=${file.modified_at} /></td>
    <td class="wide-only nowrap">${file.job ? html`<${Job} file=${file} />` : html`<span class="dim">none</span>`}</td>
  </tr>`;
}

function Job({ file }) {
  return html`<a href=${link("jobs", file.job)}>${file.job}</a>${file.attempt > 1 ? `, attempt ${file.attempt}` : ""}`;
}
