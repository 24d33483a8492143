/** Calls of the service: JSON in and out, problems as errors, the session's token on every change. */

/** What the service refused (RFC 9457), or status 0 when it did not answer. */
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || `The service answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.title = body.title || "";
    this.allowed = body.allowed || [];
    /** [{pointer | parameter, detail}] */
    this.errors = body.errors || [];
  }

  get offline() {
    return this.status === 0;
  }
}

/** Seconds until a call counts as unanswered; what changes much may take long. */
const DEADLINE = 30;
const LONG_DEADLINE = 300;

/** Who is signed in: {user, role, csrf_token, expires_at}, or null. */
let session = null;
const listeners = new Set();

export const currentSession = () => session;

/** Calls `listener(session)` at each change; returns what ends that. */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function setSession(next) {
  session = next;
  for (const listener of listeners) listener(session);
}

/** The session of the browser's cookie, or null. */
export async function resume() {
  try {
    const found = await call("GET", "/v1/session");
    setSession(found.csrf_token ? found : null);
  } catch (problem) {
    if (problem.status !== 401) throw problem;
    setSession(null);
  }
  return session;
}

export async function signIn(key) {
  const headers = { "X-API-Key": key };
  setSession(await call("POST", "/v1/session", { headers }));
}

export async function signOut() {
  await call("DELETE", "/v1/session");
  setSession(null);
}

/**
 * One call. `body` is sent as JSON, `query` holds strings, arrays of them, or null for what is left out.
 * Gives the JSON of the answer, null without any; throws Problem, also when there is none for `seconds`.
 */
export async function call(method, path, { body, query, headers = {}, signal, seconds } = {}) {
  const sent = { ...changeHeaders(method), ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const options = { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) };
  const read = (response) => (response.status === 204 ? null : response.json());
  return answered(path + search(query), options, read, signal, seconds ?? (method === "GET" ? DEADLINE : LONG_DEADLINE));
}

/** What `read(response)` makes of an answer that is no problem, within `seconds`; throws Problem. */
async function answered(path, options, read, signal, seconds) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), seconds * 1000);
  try {
    const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
    const response = await fetch(path, { ...options, credentials: "same-origin", signal: either });
    if (!response.ok) throw await problemOf(response);
    return await read(response);
  } catch (error) {
    if (error instanceof Problem || signal?.aborted) throw error;
    if (late.signal.aborted) throw new Problem(0, { title: "No answer", detail: `The service has not answered for ${seconds} seconds.` });
    throw new Problem(0, { title: "No connection", detail: "The service cannot be reached." });
  } finally {
    clearTimeout(timer);
  }
}

/** The text of a file, at most `most` bytes of it: {text, whole}. */
export async function text(path, { most = Infinity, signal } = {}) {
  const response = await open(path, { signal });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let found = "";
  let read = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: found + decoder.decode(), whole: true };
    read += value.length;
    found += decoder.decode(value, { stream: true });
    if (read > most) {
      await reader.cancel();
      return { text: found, whole: false };
    }
  }
}

/** A response whose body is to be read as a stream, however long that takes; throws Problem. */
export const open = (path, { signal } = {}) => answered(path, {}, (response) => response, signal, DEADLINE);

/** POST of a form with files; `onProgress(fraction)` while it is sent (fetch cannot tell). */
export function upload(path, form, onProgress, headers = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries({ ...changeHeaders("POST"), ...headers })) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () => reject(new Problem(0, { detail: "The connection was lost while sending." }));
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status < 400) resolve(body);
      else reject(new Problem(request.status, body));
      if (request.status === 401) setSession(null);
    };
    request.send(form);
  });
}

function changeHeaders(method) {
  return session && method !== "GET" ? { "X-CSRF-Token": session.csrf_token } : {};
}

function search(query) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") found.append(name, one);
  }
  return found.size ? `?${found}` : "";
}

async function problemOf(response) {
  if (response.status === 401 && session) setSession(null);
  return new Problem(response.status, parsed(await response.text()));
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return {};
  }
}
