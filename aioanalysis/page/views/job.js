import { html } from "../dom.js";
import { Heading } from "../ui.js";

export function Job() {
  return html`<${Heading}>Job<//>`;
}
