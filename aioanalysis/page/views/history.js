/** What happened to an analysis, newest first. */

import { html } from "../dom.js";
import { moment } from "../format.js";
import { EVENTS } from "../states.js";
import { State } from "../ui.js";

export function History({ job }) {
  return html`<section class="card" aria-label="History">
    <ol class="history">
      ${[...job.history].reverse().map(
        (one, index) => html`<li key=${job.history.length - index}>
          <time class="dim small" datetime=${one.at}>${moment(one.at)}</time>
          <div class="row"><span>${EVENTS[one.event] || one.event.replaceAll("_", " ")}</span><${State} state=${one.to} />
            <span class="dim small">by ${one.by}</span>${one.note && html`<span class="small">${one.note}</span>`}</div>
        </li>`,
      )}
    </ol>
  </section>`;
}
