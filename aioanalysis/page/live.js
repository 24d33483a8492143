/** Jobs that stay as they are at the service, by its events. */

import { call } from "./api.js";
import { announce, throttled, useEffect, useEvents, useLoad, useRef, useState } from "./dom.js";
import { FINISHED, STATES } from "./states.js";

const PAUSE = 250;
const MANY = 10;

/** One job, whole: what `useLoad` gives, its data null once it has been removed. */
export function useJob(id) {
  const loaded = useLoad((signal) => call("GET", `/v1/jobs/${encodeURIComponent(id)}`, { signal }), [id]);
  const [removed, setRemoved] = useState(false);
  const reload = useRef(throttled(() => loaded.refresh(), PAUSE));
  useEvents((kind, data) => {
    if (kind === "reset") loaded.refresh();
    else if (kind === "job" && data.job === id) {
      if (data.kind === "removed") setRemoved(true);
      else reload.current();
    } else if (kind === "progress" && data.id === id) loaded.setData((job) => job && progressed(job, data));
  });
  useAnnounced(loaded.data);
  return { ...loaded, removed };
}

/** The jobs that `query` finds, newest first: {jobs, cursor} as data, and `more()` for the next page. */
export function useJobs(query) {
  const asked = JSON.stringify(query);
  const loaded = useLoad((signal) => call("GET", "/v1/jobs", { query, signal }), [asked]);
  const changed = useRef(new Set());
  const flush = useRef(null);
  flush.current = async () => {
    const ids = [...changed.current];
    changed.current.clear();
    if (ids.length > MANY) return loaded.refresh();
    const found = await Promise.all(ids.map((id) => call("GET", `/v1/jobs/${id}`).catch(() => null)));
    return loaded.setData((data) => data && { ...data, jobs: merged(data.jobs, found.filter(Boolean), query) });
  };
  const last = useRef(Promise.resolve());
  const inTurn = () => (last.current = last.current.finally(() => flush.current()).catch(() => loaded.refresh())); // or older news could come last
  const soon = useRef(throttled(inTurn, PAUSE));
  useEvents((kind, data) => {
    if (kind === "reset") loaded.refresh();
    else if (kind === "job" && data.kind === "removed") {
      changed.current.delete(data.job);
      loaded.setData((before) => before && { ...before, jobs: before.jobs.filter((job) => job.id !== data.job) });
    } else if (kind === "job" && (!data.submitter || !query.submitter || data.submitter === query.submitter)) {
      changed.current.add(data.job);
      soon.current();
    } else if (kind === "progress") {
      loaded.setData(
        (before) =>
          before && { ...before, jobs: before.jobs.map((job) => (job.id === data.id ? progressed(job, data) : job)) },
      );
    }
  });
  const more = async () => {
    const next = await call("GET", "/v1/jobs", { query: { ...query, cursor: loaded.data.cursor } });
    loaded.setData((data) => ({ ...next, jobs: merged(data.jobs, next.jobs, query) }));
  };
  return { ...loaded, more };
}

function merged(jobs, found, { state, title }) {
  const fitting = found.filter((job) => (!state?.length || [state].flat().includes(job.state)) && (!title || job.title === title));
  const gone = new Set(found.map((job) => job.id));
  const all = [...jobs.filter((job) => !gone.has(job.id)), ...fitting];
  return all.sort((one, other) => Date.parse(other.submitted_at) - Date.parse(one.submitted_at));
}

/** `job` with what an event told of one of its runs. */
function progressed(job, { id, title, submitter, ...told }) {
  if (FINISHED.has(job.state)) return job;
  const others = (job.progress || []).filter((one) => one.frame !== told.frame);
  return { ...job, progress: [...others, told] };
}

/** Says aloud what state a job has come to. */
function useAnnounced(job) {
  const before = useRef(null);
  useEffect(() => {
    if (!job) return;
    if (before.current && before.current !== job.state) {
      announce(`Analysis ${job.id} is now ${STATES[job.state].label.toLowerCase()}.`);
    }
    before.current = job.state;
  }, [job?.state]);
}
