/** What a run prints, as it comes. */

import { open } from "../api.js";
import { html, useEffect, useRef, useState } from "../dom.js";
import { FINISHED } from "../states.js";
import { Empty, Loading, Problem } from "../ui.js";

const MOST = 400_000;

export function Log({ run }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState(null);
  const box = useRef(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const control = new AbortController();
    const follow = !FINISHED.has(run.state);
    const address = follow ? `${run.log}${run.search ? "&" : "?"}follow=true` : run.log;
    read(address, control.signal, (piece) => setText((before) => ((before || "") + piece).slice(-MOST))).catch((found) => {
      if (!control.signal.aborted) setProblem(found);
    });
    return () => control.abort();
  }, [run.log, run.state]);
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const scrolled = ({ target }) => {
    atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 30;
  };
  if (problem?.status === 404 && !text) return html`<${Empty} title="Nothing was printed."><p>${problem.message}</p><//>`;
  if (problem) return html`<${Problem} problem=${problem} />`;
  if (text === null) return html`<${Loading} what="Waiting for output" />`;
  if (!text) return html`<${Empty} title="Nothing was printed." />`;
  return html`<div class="stack">
    <div class="row"><a class="button" href=${run.log} download="job.log">Download the output</a></div>
    <pre class="output tall" tabindex="0" role="region" aria-label="Output" ref=${box} onScroll=${scrolled}>${text}</pre>
  </div>`;
}

async function read(address, signal, take) {
  const response = await open(address, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    take(value);
  }
  take("");
}
