/** The methods' definitions, asked for once. */

import { call, onSession } from "./api.js";
import { useLoad } from "./dom.js";

let asked = null;

onSession(() => (asked = null));

/** {methods, unusable}; asked for again after a failure, or with `anew`. */
export function loadMethods({ anew = false } = {}) {
  if (!asked || anew) {
    asked = call("GET", "/v1/methods");
    asked.catch(() => (asked = null));
  }
  return asked;
}

/** title → label, known once the definitions have come; a title without one is its own. */
export function useLabels() {
  const { data } = useLoad(() => loadMethods(), []);
  const labels = new Map((data?.methods || []).map((method) => [method.title, method.label]));
  return (title) => labels.get(title) || title;
}
