/** What a run prints, as it comes. */

import { open } from "../api.js";
import { html, useEffect, useRef, useState } from "../dom.js";
import { FINISHED } from "../states.js";
import { Empty, Loading, Problem } from "../ui.js";

const MOST = 400_000;
const PAUSE = 2000;

export function Log({ run }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState(null);
  const box = useRef(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const control = new AbortController();
    const { signal } = control;
    const follow = !FINISHED.has(run.state);
    const address = follow ? `${run.log}${run.search ? "&" : "?"}follow=true` : run.log;
    const begin = async () => {
      let anew = true; // each answer begins with the last part of what there is so far
      const take = (piece) => {
        const kept = anew ? () => piece : (before) => (before + piece).slice(-MOST);
        anew = false;
        setText(kept);
      };
      try {
        await read(address, signal, take);
        setText((before) => before ?? "");
      } catch (found) {
        if (signal.aborted) return;
        if (!follow || !passes(found)) return setProblem(found);
      }
      if (follow) setTimeout(() => signal.aborted || begin(), PAUSE);
    };
    begin();
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
}

/** Whether it may be otherwise in a while: a connection that was cut, a service that starts again. */
function passes({ status = 0 }) {
  return status === 0 || status === 429 || status >= 500;
}
