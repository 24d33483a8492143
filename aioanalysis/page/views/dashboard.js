/** For administrators: everybody's jobs, workers, storage. */

import { html } from "../dom.js";
import { Heading } from "../ui.js";

export function Dashboard() {
  return html`<${Heading}>Dashboard<//>`;
}
