/** What fails: by method and reason, the most frequent first. */

import { html } from "../dom.js";
import { number } from "../format.js";
import { link } from "../router.js";
import { REASONS } from "../states.js";
import { Empty, Loaded, Time } from "../ui.js";
import { Breakable, Meter, Table, useLive } from "./live.js";

const COLUMNS = [
  { text: "Method" },
  { text: "Reason" },
  { text: "Runs", number: true },
  { text: "Analyses", number: true, wide: true },
  { text: "Last", wide: true },
];

export function Failures() {
  const statistics = useLive("/v1/statistics", { hours: "24" }, { milliseconds: 5000 });
  return html`<${Loaded} of=${statistics} what="Counting the failures">
    ${({ failures }) => {
      if (!failures.length) {
        return html`<${Empty} title="Nothing has failed."><p>Of the analyses of the last 7 days.</p><//>`;
      }
      const most = failures[0].runs;
      return html`<${Table} caption="Failed runs by method and reason" columns=${COLUMNS}>
        ${failures.map(
          (failure) => html`<tr key=${`${failure.title} ${failure.reason}`}>
            <th scope="row"><a href=${link("dashboard", "analyses", { state: "failed", title: failure.title })}><${Breakable} name=${failure.title} /></a></th>
            <td>
              ${REASONS[failure.reason]} <code class="dim wide-only">${failure.reason}</code>
              <div class="narrow-only small"><${Last} failure=${failure} /></div>
            </td>
            <td class="number"><${Meter} value=${failure.runs} max=${most} label=${`${failure.runs} of at most ${most}`} /> ${number(failure.runs, 0)}</td>
            <td class="number wide-only">${number(failure.jobs, 0)}</td>
            <td class="wide-only"><${Last} failure=${failure} /></td>
          </tr>`,
        )}
      <//>`;
    }}
  <//>`;
}

function Last({ failure }) {
  return html`<a href=${link("jobs", failure.last_job)} aria-label=${`The last one, ${failure.last_job}`}>${failure.last_job}</a>${" "}
    <span class="dim"><${Time} at=${failure.last_at} /></span>`;
}
