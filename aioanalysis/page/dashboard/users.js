/** Who uses how much: analyses, computing time and what results take. */

import { html } from "../dom.js";
import { bytes, duration, number } from "../format.js";
import { link } from "../router.js";
import { Empty, Loaded } from "../ui.js";
import { Meter, Table, useLive } from "./live.js";

const COLUMNS = [
  { text: "Submitter" },
  { text: "Unfinished", number: true },
  { text: "Ended", number: true, wide: true },
  { text: "Failed", number: true, wide: true },
  { text: "CPU time", number: true },
  { text: "Run time", number: true, wide: true },
  { text: "Results", number: true, wide: true },
];

export function Users() {
  const statistics = useLive("/v1/statistics", { hours: "24" }, { milliseconds: 5000 });
  return html`<${Loaded} of=${statistics} what="Summing up">
    ${({ submitters }) => {
      if (!submitters.length) return html`<${Empty} title="Nobody has submitted anything yet."><//>`;
      const most = Math.max(...submitters.map((one) => one.cpu_seconds));
      return html`
        <p class="dim small">Analyses of the last 7 days that have not been removed; all their runs, failed ones too.</p>
        <${Table} caption="Load by submitter" columns=${COLUMNS}>
          ${submitters.map(
            (one) => html`<tr key=${one.submitter}>
              <th scope="row"><a href=${link("dashboard", "analyses", { submitter: one.submitter })}>${one.submitter}</a></th>
              <td class="number">${number(one.unfinished, 0)}</td>
              <td class="number wide-only">${number(one.ended, 0)}</td>
              <td class="number wide-only">${number(one.failed, 0)}</td>
              <td class="number">
                <${Meter} value=${one.cpu_seconds} max=${most} label=${`${duration(one.cpu_seconds)} of at most ${duration(most)}`} />
                ${" "}${one.cpu_seconds ? duration(one.cpu_seconds) : "none"}
              </td>
              <td class="number wide-only">${one.run_seconds ? duration(one.run_seconds) : "none"}</td>
              <td class="number wide-only">${bytes(one.result_bytes)}</td>
            </tr>`,
          )}
        <//>
      `;
    }}
  <//>`;
}
