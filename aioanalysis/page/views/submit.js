/** New analysis: the form of one method, also filled with a former analysis (`?from=`). */

import { call, upload } from "../api.js";
import { announce, html, useEffect, useLoad, useRef, useState } from "../dom.js";
import { ParameterField } from "../field.js";
import { go, link } from "../router.js";
import { fieldsOf, rawOf, valueOf } from "../schema.js";
import { pointer, requestOf, startOf, wrongAt, wrongOf } from "../submission.js";
import { Heading, Loaded, Problem } from "../ui.js";
import { More } from "./more.js";
import { Records } from "./records.js";

export function Submit({ title, query, session }) {
  const from = query.get("from");
  const loaded = useLoad((signal) => load(title, from, session, signal), [title, from]);
  return html`<${Loaded} of=${loaded} what="Loading the form">
    ${(data) => html`<${Form} key=${`${title} ${from}`} ...${data} />`}
  <//>`;
}

async function load(title, from, session, signal) {
  const [method, recent, job] = await Promise.all([
    call("GET", `/v1/methods/${encodeURIComponent(title)}`, { signal }),
    call("GET", "/v1/jobs", { query: { limit: 100, submitter: session.user }, signal }),
    from ? call("GET", `/v1/jobs/${encodeURIComponent(from)}`, { signal }) : null,
  ]);
  const start = startOf(fieldsOf(method.parameters), job);
  if (start.runs === "json") {
    const { frames } = await call("GET", `/v1/jobs/${job.id}/frames`, { signal });
    start.frames = JSON.stringify(frames.map((frame) => frame.params), null, 1);
  }
  return { method, recent: recent.jobs, job, start };
}

function Form({ method, recent, job, start }) {
  const fields = fieldsOf(method.parameters);
  const [form, setForm] = useState(start);
  const [wrong, setWrong] = useState(new Map());
  const [problem, setProblem] = useState(null);
  const [sending, setSending] = useState(null);
  const place = useRef(null);
  const key = useRef(null);
  const change = (part) => {
    key.current = null;
    setForm((before) => ({ ...before, ...part }));
  };
  const mend = (where) => setWrong((before) => new Map([...before].filter(([one]) => one !== where && !one.startsWith(`${where}/`))));
  const at = (where) => wrongAt(wrong, where);
  useEffect(() => {
    if (problem || wrong.size) toFirstWrong(place.current);
  }, [problem]);

  const submit = async (event) => {
    event.preventDefault();
    const made = requestOf(fields, form);
    setWrong(made.wrong);
    if (made.wrong.size) {
      setProblem({ title: "Not sent yet", message: "Correct what is marked below.", errors: [] });
      return;
    }
    setProblem(null);
    setSending(0);
    key.current ??= crypto.randomUUID();
    try {
      const created = await send(method.title, job, form, made.body, key.current, setSending);
      announce(`${method.label} was submitted.`);
      go(link("jobs", created.id));
    } catch (found) {
      setSending(null);
      setWrong(wrongOf(found));
      setProblem(found);
    }
  };
  const reset = () => change({ params: Object.fromEntries(fields.map((field) => [field.name, rawOf(field, undefined)])) });

  return html`
    <div class="stack">
      <p class="small"><a href=${job ? link("jobs", job.id) : link("new")}>${job ? `Analysis ${job.id}` : "All methods"}</a></p>
      <${Heading} title=${method.label}>${job ? `Resubmit: ${method.label}` : method.label}<//>
      <p class="dim">${method.description}</p>
      ${job && html`<p class="dim">Filled in as in analysis ${job.id}. Change what should differ; a new analysis is made.</p>`}
    </div>
    <form class="stack" ref=${place} onSubmit=${submit} novalidate>
      ${problem && html`<${Trouble} problem=${problem} wrong=${wrong} />`}
      <section class="card" aria-labelledby="records-title">
        <h2 id="records-title">Records</h2>
        <${Records} form=${form} change=${change} at=${at} mend=${mend} job=${job} recent=${recent} />
      </section>
      <section class="card" aria-labelledby="params-title">
        <div class="row apart">
          <h2 id="params-title">Parameters</h2>
          ${fields.length > 0 && html`<button type="button" class="quiet" onClick=${reset}>Back to the defaults</button>`}
        </div>
        ${fields.length ? null : html`<p class="dim">This method has none.</p>`}
        <div class="fields">
          ${fields.map((field) => {
            const where = `/params/${pointer(field.name)}`;
            const leave = () => {
              const found = valueOf(field, form.params[field.name]);
              if (found.wrong) setWrong((before) => new Map(before).set(where, found.wrong));
            };
            const typed = (raw) => {
              mend(where);
              change({ params: { ...form.params, [field.name]: raw } });
            };
            return html`<${ParameterField}
              key=${field.name}
              field=${field}
              raw=${form.params[field.name]}
              wrong=${at(where)}
              onChange=${typed}
              onLeave=${leave}
            />`;
          })}
        </div>
      </section>
      <${More} form=${form} fields=${fields} change=${change} at=${at} mend=${mend} recent=${recent} />
      <div class="row">
        <button class="primary" disabled=${sending !== null}>
          ${sending === null ? (job ? "Submit the new analysis" : "Submit") : sending ? `Sending ${Math.round(sending * 100)} % …` : "Submitting …"}
        </button>
        <a class="button" href=${job ? link("jobs", job.id) : link("new")}>Cancel</a>
      </div>
    </form>
  `;
}

/** The problem, with what has no field of its own. */
function Trouble({ problem, wrong }) {
  const told = [...wrong].filter(([where]) => !/^\/(params\/|recordset|set_token|records|selection|frames|split|after|retries|tags|hold)/.test(where));
  return html`<div tabindex="-1" data-trouble>
    <${Problem} problem=${problem} title=${problem.title} />
    ${told.map(([where, text]) => html`<p key=${where} class="wrong">${where.replace(/^\//, "")}: ${text}</p>`)}
  </div>`;
}

/** The focus goes to the first field that is wrong, else to what is said above the form. */
function toFirstWrong(form) {
  const field = form.querySelector('[aria-invalid="true"], [data-wrong] input, [data-wrong] textarea');
  const target = field || form.querySelector("[data-trouble]");
  if (!target) return;
  const folded = target.closest("details:not([open])");
  if (folded) folded.open = true;
  target.focus();
}

/** Sends the form as what it is: a new analysis, one with a file, or a former one with changes. */
async function send(title, job, form, body, key, onProgress) {
  const headers = { "Idempotency-Key": key };
  if (form.source === "file") {
    const parts = new FormData();
    parts.append("job", JSON.stringify({ ...body, title }));
    parts.append("records", form.file, form.file.name);
    return upload("/v1/jobs", parts, onProgress, headers);
  }
  if (!job) return call("POST", "/v1/jobs", { body: { ...body, title }, headers });
  const whole = { selection: null, ...(body.split ? {} : { frames: null }), ...body };
  return call("POST", `/v1/jobs/${job.id}/actions/resubmit`, { body: whole, headers });
}
