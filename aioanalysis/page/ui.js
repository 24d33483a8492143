/** Small parts that all views are made of. */

import { html, useEffect, useErrorBoundary, useNow, useRef, useState } from "./dom.js";
import { moment, relative } from "./format.js";
import { SHAPES, STATES } from "./states.js";

/** The view's heading: takes the focus when it appears, so that keyboard and screen reader begin there. */
export function Heading({ children, title }) {
  const place = useRef(null);
  useEffect(() => {
    if (document.body.dataset.navigated) place.current?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    document.title = `${title || place.current?.textContent || ""} · Analyses`;
  });
  return html`<h1 tabindex="-1" ref=${place}>${children}</h1>`;
}

export function Icon({ shape }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${SHAPES[shape]} /></svg>`;
}

/** A state by shape, word and colour. */
export function State({ state, text }) {
  const known = STATES[state];
  return html`<span class="state" data-state=${state} title=${known.text}>
    <${Icon} shape=${known.shape} />${text || known.label}
  </span>`;
}

/** A moment as people say it, the exact one on hover. */
export function Time({ at }) {
  const now = useNow();
  return at ? html`<time datetime=${at} title=${moment(at)}>${relative(at, now)}</time>` : html`<span>unknown</span>`;
}

const PATIENCE = 8000;

export function Loading({ what = "Loading" }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), PATIENCE);
    return () => clearTimeout(timer);
  }, []);
  return html`<p class="loading" role="status">
    <span class="spinner" aria-hidden="true"></span>${what} …${late && " The service is slow to answer; still trying."}
  </p>`;
}

/** `children`, or where drawing them has failed that this is so, and a way to try again. */
export function Guarded({ children }) {
  const [error, reset] = useErrorBoundary((found) => setTimeout(() => { throw found; }));
  return error ? html`<${Problem} title="This part of the page has a fault" problem=${error} again=${reset} />` : children;
}

/** What went wrong, in words, with what can be done. */
export function Problem({ problem, again, title }) {
  if (!problem) return null;
  return html`<div class="notice bad" role="alert">
    <p><strong>${title || (problem.offline ? "No connection" : problem.title || "That did not work")}</strong></p>
    <p>${problem.message}</p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p><strong>${title}</strong></p>${children}</div>`;
}

/** Loading, trouble, or what `children(data)` makes of what `useLoad` gave. */
export function Loaded({ of, what, children }) {
  if (of.data === null && of.problem) return html`<${Problem} problem=${of.problem} again=${of.reload} />`;
  if (of.data === null) return html`<${Loading} what=${what} />`;
  return html`${of.problem && html`<${Problem} problem=${of.problem} again=${of.reload} />`}${children(of.data)}`;
}

/** Links that look like tabs: `tabs` are [{name, label, href}]. */
export function Tabs({ tabs, current, label }) {
  const row = useRef(null);
  useEffect(() => {
    row.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  return html`<nav class="tabs" aria-label=${label} ref=${row}>
    ${tabs.map(
      ({ name, label: text, href }) =>
        html`<a key=${name} href=${href} aria-current=${name === current ? "page" : null}>${text}</a>`,
    )}
  </nav>`;
}

/** A modal question; `onAnswer(true | false)`. Escape is no. */
export function Confirm({ title, children, yes, danger, onAnswer }) {
  const dialog = useRef(null);
  useEffect(() => {
    const { current } = dialog;
    current.showModal();
    return () => current.close(); // gives the focus back
  }, []);
  const cancelled = (event) => {
    event.preventDefault();
    onAnswer(false);
  };
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title" onCancel=${cancelled}>
    <h2 id="confirm-title">${title}</h2>
    <div>${children}</div>
    <div class="row end">
      <button type="button" onClick=${() => onAnswer(false)}>Cancel</button>
      <button type="button" class=${danger ? "danger" : "primary"} onClick=${() => onAnswer(true)}>${yes}</button>
    </div>
  </dialog>`;
}

/** A piece of text to copy. */
export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-label=${done ? "Copied" : label}>
    ${done ? "Copied" : label}
  </button>`;
}
