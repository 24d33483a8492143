/** The service's events: one stream for the whole page, opened while somebody is signed in. */

import { currentSession, onSession, resume } from "./api.js";

const PAUSE = 2000;
const REST = 5000;
const DEADLINE = 20_000;
const listeners = new Set();
let source = null;
let again = 0;
let late = 0;

/** "off", "opening", "live", "lost" while it tries again, or "resting" while nobody looks. */
export let status = "off";

/**
 * Calls `listener(kind, data)` for every event until the returned function is called. Kinds:
 * "job" {kind: created | changed | removed, job, title, state, submitter?}, "progress" {id, frame, stage,
 * stages, name, message, fraction, at}, "reset" (events were missed: load anew), "status" {status}.
 */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(kind, data) {
  for (const listener of [...listeners]) listener(kind, data);
}

function setStatus(next) {
  if (next === status) return;
  status = next;
  tell("status", { status });
}

function start() {
  stop();
  setStatus("opening");
  source = new EventSource("/v1/events");
  expect();
  let fresh = true;
  source.onopen = () => {
    clearTimeout(late);
    setStatus("live");
    // A new stream tells nothing of before; one that comes back goes on where it was cut.
    if (fresh) tell("reset", {});
    fresh = false;
  };
  for (const kind of ["job", "progress", "reset"]) {
    source.addEventListener(kind, (event) => tell(kind, JSON.parse(event.data)));
  }
  source.onerror = () => {
    setStatus("lost");
    expect();
    if (source.readyState === EventSource.CLOSED) again = setTimeout(reopen, PAUSE);
  };
}

/** A stream that neither opens nor fails is given up: a browser would wait for it for minutes. */
function expect() {
  clearTimeout(late);
  late = setTimeout(() => {
    setStatus("lost");
    reopen();
  }, DEADLINE);
}

/** A new stream, if there is still a session: after an error status, which ends an EventSource, or a rest. */
async function reopen() {
  clearTimeout(again);
  try {
    if (!(await resume())) return;
  } catch {
    again = setTimeout(reopen, PAUSE);
    return;
  }
  start();
}

function stop() {
  clearTimeout(again);
  clearTimeout(late);
  source?.close();
  source = null;
}

onSession((session) => {
  if (session && status === "off") start();
  if (!session) {
    stop();
    setStatus("off");
  }
});

// A browser has few connections to a service over HTTP/1.1: tabs that nobody sees keep none.
let resting = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(rest, REST);
  else if (status === "resting") reopen();
});

function rest() {
  if (!source) return;
  stop();
  setStatus("resting");
}

addEventListener("offline", () => source && setStatus("lost"));
addEventListener("online", () => {
  if (currentSession() && status !== "live") reopen();
});
