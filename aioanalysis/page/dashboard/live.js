/** What the tabs share: data that follow the service's events, and small parts of tables. */

import { html, throttled, useEffect, useEvents, useLoad, useMemo, useRef } from "../dom.js";
import { call } from "../api.js";
import { number } from "../format.js";

/**
 * `useLoad` of a GET, loaded again when `query` changes (what there was stays until then), and after events of
 * `kinds`, at most once in `milliseconds`; what no event tells of, `every` so many milliseconds besides. Nothing
 * is asked for while the page is hidden; when it is seen again, once.
 */
export function useLive(path, query, { kinds = ["job"], milliseconds = 3000, every = 0 } = {}) {
  const loaded = useLoad((signal) => call("GET", path, { query, signal }), [path]);
  const { reload, refresh } = loaded;
  const asked = JSON.stringify(query);
  const last = useRef(asked);
  useEffect(() => {
    if (last.current !== asked) reload();
    last.current = asked;
  }, [asked]);
  const stale = useRef(false);
  const soon = useMemo(
    () =>
      throttled(() => {
        if (document.hidden) stale.current = true;
        else refresh();
      }, milliseconds),
    [refresh, milliseconds],
  );
  // The service keeps what is costly for some seconds, so the first answer after an event may be of before it:
  // asked again until there is one that was made after that.
  const awaited = useRef(null);
  useEvents((kind) => {
    if (kind !== "reset" && !kinds.includes(kind)) return;
    awaited.current = "first";
    soon();
  });
  const at = loaded.data?.at;
  useEffect(() => {
    if (awaited.current === null || loaded.data === null) return;
    if (at !== undefined && (awaited.current === "first" || awaited.current === at)) {
      awaited.current = at;
      soon();
    } else {
      awaited.current = null;
    }
  }, [loaded.data]);
  useEffect(() => {
    const timer = every && setInterval(soon, every);
    return () => clearInterval(timer);
  }, [soon, every]);
  useEffect(() => {
    const seen = () => {
      if (document.hidden || !stale.current) return;
      stale.current = false;
      refresh();
    };
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, [refresh]);
  return loaded;
}

/** Workers are known by their signs of life, which are no events. */
export const SIGNS = 15_000;

/** "1 analysis", "3 analyses". */
export const analyses = (value) => `${number(value, 0)} ${value === 1 ? "analysis" : "analyses"}`;

/** A file's name that may break after its dots, underscores and slashes. */
export function Breakable({ name }) {
  return name.split(/(?<=[._/-])/).map((part, index) => html`${index > 0 && html`<wbr />`}${part}`);
}

/** A table in a card that scrolls by itself where it is too wide; `columns` are [{text, number?, wide?}]. */
export function Table({ caption, columns, children }) {
  return html`<div class="card table">
    <div class="scroll" role="region" aria-label=${caption} tabindex="0">
      <table>
        <caption class="unseen">${caption}</caption>
        <thead>
          <tr>
            ${columns.map(
              ({ text, number, wide }) =>
                html`<th key=${text} scope="col" class=${[number && "number", wide && "wide-only"].filter(Boolean).join(" ")}>${text}</th>`,
            )}
          </tr>
        </thead>
        <tbody>${children}</tbody>
      </table>
    </div>
  </div>`;
}

/** A share of something, as a bar beside its figure. */
export function Meter({ value, max, label }) {
  return html`<meter min="0" max=${max || 1} value=${value} aria-label=${label}></meter>`;
}
