import { html } from "../dom.js";
import { Heading } from "../ui.js";

export function Methods() {
  return html`<${Heading}>Methods<//>`;
}
