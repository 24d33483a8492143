/** The form of a new analysis as a plain object, and the request that it makes. */

import { rawOf, valueOf } from "./schema.js";

/** What the form holds at first: the method's defaults, or a former job's definition. */
export function startOf(fields, job) {
  const after = job && job.holds.includes("dependencies") ? job.after : [];
  return {
    params: Object.fromEntries(fields.map((field) => [field.name, rawOf(field, job?.params[field.name])])),
    source: job?.attached ? "attached" : job?.set_token ? "set_token" : "recordset",
    recordset: job?.recordset || "",
    set_token: job?.set_token || "",
    file: null,
    selection: job?.selection ? (job.selection.include ? "include" : "exclude") : "all",
    ids: (job?.selection?.include || job?.selection?.exclude || []).join("\n"),
    runs: job?.split ? (job.split.by ? "by" : "records") : job?.frames ? "json" : "one",
    vary: "",
    values: "",
    records: String(job?.split?.records ?? 100),
    by: job?.split?.by || "",
    frames: "",
    after: after.map(({ job: id, when, each }) => ({ job: id, when, each })),
    hold: false,
    retries: String(job?.retries ?? 0),
    tags: (job?.tags || []).join(", "),
  };
}

/** {body, wrong}: the request, and what is wrong by JSON pointer, as the service would say it. */
export function requestOf(fields, form) {
  const wrong = new Map();
  const params = {};
  for (const field of fields) {
    const found = valueOf(field, form.params[field.name]);
    if (found.wrong) wrong.set(`/params/${pointer(field.name)}`, found.wrong);
    else if (found.value !== undefined) params[field.name] = found.value;
  }
  const body = { params, ...records(form, wrong), ...runs(fields, form, wrong) };
  const retries = Number(form.retries);
  if (!Number.isInteger(retries) || retries < 0 || retries > 10) wrong.set("/retries", "0 to 10.");
  body.retries = retries;
  body.tags = form.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
  body.after = [];
  form.after.forEach((one, index) => {
    const id = one.job.trim().toLowerCase();
    if (!/^[0-9a-z]{8}$/.test(id)) wrong.set(`/after/${index}`, "Give an analysis's id: 8 letters and digits.");
    body.after.push({ ...one, job: id });
  });
  if (form.hold) body.hold = true;
  return { body, wrong };
}

function records(form, wrong) {
  const found = {};
  if (form.source === "recordset" || form.source === "set_token") {
    const given = form[form.source].trim();
    const what = form.source === "recordset" ? "Give the code of a recordset." : "Give a set token.";
    if (!given) wrong.set(`/${form.source}`, what);
    found[form.source] = given;
  }
  if (form.source === "file" && !form.file) wrong.set("/records", "Choose a file.");
  if (form.selection !== "all") {
    const ids = form.ids.split(/[\s,;]+/).filter(Boolean);
    if (!ids.length) wrong.set("/selection", "Give at least one id.");
    found.selection = { [form.selection]: ids };
  }
  return found;
}

function runs(fields, form, wrong) {
  switch (form.runs) {
    case "vary":
      return { frames: varied(fields, form, wrong) };
    case "json":
      return { frames: written(form, wrong) };
    case "records": {
      const size = Number(form.records);
      if (!Number.isInteger(size) || size < 1) wrong.set("/split", "Give a whole number, 1 or more.");
      return { split: { records: size } };
    }
    case "by":
      if (!form.by.trim()) wrong.set("/split", "Give the name of a field.");
      return { split: { by: form.by.trim() } };
    default:
      return {};
  }
}

function varied(fields, form, wrong) {
  const field = fields.find((one) => one.name === form.vary);
  const lines = form.values.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!field || !lines.length) {
    wrong.set("/frames", "Choose a parameter and give its values, one a line.");
    return [];
  }
  return lines.map((line) => {
    const raw = field.kind === "choice" ? String(field.schema.enum.findIndex((one) => String(one) === line)) : line;
    const found = raw === "-1" && field.kind === "choice" ? { wrong: "is none of the choices." } : valueOf(field, raw);
    if (found.wrong) wrong.set("/frames", `“${line}”: ${found.wrong}`);
    return { [field.name]: found.value };
  });
}

function written(form, wrong) {
  try {
    const found = JSON.parse(form.frames);
    if (Array.isArray(found)) return found;
  } catch {
    // told below
  }
  wrong.set("/frames", "This is not a JSON array of objects.");
  return [];
}

/** The service's errors by pointer. */
export function wrongOf(problem) {
  return new Map(problem.errors.map((error) => [error.pointer ?? `/${error.parameter}`, error.detail]));
}

/** What is wrong at `place` or inside it. */
export function wrongAt(wrong, place) {
  for (const [where, text] of wrong) if (where === place || where.startsWith(`${place}/`)) return text;
  return null;
}

export function pointer(name) {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
