import { html } from "../dom.js";
import { Heading } from "../ui.js";

export function Jobs() {
  return html`<${Heading}>Jobs<//>`;
}
