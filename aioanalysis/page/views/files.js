/** The files of a run's package, and a look at one of them. */

import { call } from "../api.js";
import { html, useLoad, useState } from "../dom.js";
import { bytes, count } from "../format.js";
import { link } from "../router.js";
import { Empty, Loaded } from "../ui.js";
import { Preview } from "./preview.js";

const FIND_FROM = 12;

export function Files({ run, job, number, path }) {
  const files = useLoad((signal) => call("GET", run.files, { signal }), [run.files, run.state, run.attempt]);
  if (files.problem && (files.problem.status === 404 || files.problem.status === 409)) {
    return html`<${Empty} title="No files."><p>${files.problem.message}</p><//>`;
  }
  return html`<${Loaded} of=${files} what="Looking into the package">
    ${(data) => html`<${Browser} files=${data.files} ...${{ run, job, number, path }} />`}
  <//>`;
}

function Browser({ files, run, job, number, path }) {
  const [words, setWords] = useState("");
  const chosen = files.find((file) => file.path === path) || null;
  const shown = files.filter((file) => file.path.toLowerCase().includes(words.toLowerCase()));
  const whole = run.links.result || run.links.failed_result;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  return html`
    <div class="row apart">
      <p class="dim">${count(files.length, "file")}, ${bytes(total)}</p>
      ${whole && html`<a class="button" href=${whole} download>Download all (zip)</a>`}
    </div>
    <div class="browser">
      <nav class="card table" aria-label="Files">
        ${files.length >= FIND_FROM &&
        html`<label class="pad"><span class="unseen">Find a file</span><input type="search" placeholder="Find" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>`}
        <ul class="files">
          ${shown.map(
            (file) => html`<li key=${file.path}>
              <a href=${link("jobs", job.id, "files", { frame: number, path: file.path })} aria-current=${file === chosen ? "true" : null}>
                <span>${file.path}</span><span class="dim nowrap">${bytes(file.size)}</span>
              </a>
            </li>`,
          )}
        </ul>
        ${!shown.length && html`<p class="pad dim">No file is called so.</p>`}
      </nav>
      ${chosen
        ? html`<${Preview} key=${chosen.link} file=${chosen} />`
        : html`<${Empty} title="Choose a file to look at it."><p>Tables, pictures, trees and text are shown here.</p><//>`}
    </div>
  `;
}
