import { html } from "../dom.js";
import { Heading } from "../ui.js";

export function Submit() {
  return html`<${Heading}>Submit<//>`;
}
