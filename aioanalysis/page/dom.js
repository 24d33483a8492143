/** Preact and htm under one name, and the hooks that the views share. */

import { html, render, useCallback, useEffect, useErrorBoundary, useMemo, useRef, useState } from "./vendor/preact.js";
import { listen } from "./events.js";

export { html, render, useCallback, useEffect, useErrorBoundary, useMemo, useRef, useState };

/**
 * Loads with `load(signal)` when `deps` change: {data, problem, loading, reload, refresh, setData}.
 * While it loads again, the data of before stay. `reload` gives up what is loading; `refresh` waits for it first,
 * so that changes which come faster than answers do not keep every answer from coming.
 */
export function useLoad(load, deps) {
  const [state, setState] = useState({ data: null, problem: null, loading: true });
  const running = useRef(null);
  const latest = useRef(load);
  latest.current = load;
  const again = useRef(false);
  const reload = useCallback(async () => {
    running.current?.abort();
    const control = new AbortController();
    running.current = control;
    again.current = false;
    setState((before) => ({ ...before, loading: true }));
    let ended;
    try {
      const data = await latest.current(control.signal);
      ended = () => ({ data, problem: null, loading: false });
    } catch (problem) {
      ended = (before) => ({ ...before, problem, loading: false });
    }
    if (control.signal.aborted) return;
    running.current = null;
    setState(ended);
    if (again.current) reload();
  }, []);
  const refresh = useCallback(() => {
    if (running.current) again.current = true;
    else reload();
  }, []);
  useEffect(() => {
    setState({ data: null, problem: null, loading: true });
    reload();
    return () => running.current?.abort();
  }, deps);
  const setData = useCallback((change) => setState((before) => ({ ...before, data: change(before.data) })), []);
  return { ...state, reload, refresh, setData };
}

/** Calls `listener(kind, data)` for the service's events, while the component is there. */
export function useEvents(listener) {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => listen((kind, data) => latest.current(kind, data)), []);
}

/** The time now, told anew every `seconds`. */
export function useNow(seconds = 20) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

/** [ref, width]: the width in pixels, `fallback` at first, of the element that gets `ref`, as it changes. */
export function useWidth(fallback) {
  const ref = useRef(null);
  const [width, setWidth] = useState(fallback);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

let clearing = 0;

/** Says `text` to a screen reader. */
export function announce(text) {
  const place = document.getElementById("announcer");
  clearTimeout(clearing);
  place.textContent = text;
  clearing = setTimeout(() => (place.textContent = ""), 10_000);
}

/** A function that runs `action` at most once in `milliseconds`, the last call included. */
export function throttled(action, milliseconds) {
  let timer = 0;
  return () => {
    if (!timer) {
      timer = setTimeout(() => {
        timer = 0;
        action();
      }, milliseconds);
    }
  };
}
