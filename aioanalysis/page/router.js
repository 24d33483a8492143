/** Addresses of the page, all behind the `#`: `#/jobs/7k2m9qxa/files?frame=3`. */

import { useEffect, useState } from "./vendor/preact.js";

/** {path: "jobs/7k2m9qxa/files", parts: [...], query: URLSearchParams} */
export function place(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?");
  return { path, parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view: `link("jobs", id, "files", {frame: 3})`. */
export function link(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${search}`;
}

export function go(address, { replace = false } = {}) {
  if (replace) location.replace(address);
  else location.hash = address;
}

export function usePlace() {
  const [here, setHere] = useState(place());
  useEffect(() => {
    const moved = () => setHere(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return here;
}

/**
 * The first of `views` whose `path` fits: {view, params}, or null. `new/:title` takes one part,
 * `:tab?` one that may be absent.
 */
export function match(views, parts) {
  for (const view of views) {
    const wanted = view.path.split("/");
    if (parts.length > wanted.length) continue;
    const params = {};
    const fits = wanted.every((want, index) => {
      if (!want.startsWith(":")) return want === parts[index];
      params[want.replace(/[:?]/g, "")] = parts[index] ?? null;
      return parts[index] !== undefined || want.endsWith("?");
    });
    if (fits) return { view, params };
  }
  return null;
}
