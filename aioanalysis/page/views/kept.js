/** Packages of earlier attempts of a run, to be downloaded. */

import { call } from "../api.js";
import { html, useEffect, useLoad } from "../dom.js";
import { bytes } from "../format.js";
import { Empty, Loaded } from "../ui.js";

const SOON = [2000, 10_000];
const WORDS = { complete: "Late package", failed: "Failed package", killed: "Package so far" };

/** What was kept of `job`'s run, or of its frame `number`: by `useLoad`, [{attempt, ending, size, link}]. */
export function useKept(job, number) {
  const loaded = useLoad(
    async (signal) => (await call("GET", `/v1/jobs/${job.id}/attempts`, { query: { frame: number }, signal })).packages,
    [job.id, number, job.state, job.attempt],
  );
  useEffect(() => {
    if (job.state !== "killed") return undefined;
    const timers = SOON.map((pause) => setTimeout(loaded.refresh, pause)); // its worker is still packing, and no event tells of it
    return () => timers.forEach(clearTimeout);
  }, [job.state]);
  return loaded;
}

export function KeptLink({ run, attempt, kept }) {
  const found = kept?.filter((one) => one.attempt === attempt) || [];
  const own = attempt === run.attempt && (run.links.result || run.links.failed_result);
  if (own) return html`<a href=${own} download>${run.links.result ? "Package" : "Failed package"}</a>`;
  if (!found.length) return kept ? "nothing" : "";
  return found.map((one) => html`<a key=${one.name} href=${one.link} download>${WORDS[one.ending]} (${bytes(one.size)})</a> `);
}

/** The list of them for one frame. */
export function Kept({ job, number }) {
  const kept = useKept(job, number);
  return html`<${Loaded} of=${kept} what="Looking for packages">
    ${(packages) =>
      packages.length
        ? html`<ul class="plain">
            ${packages.map((one) => html`<li key=${one.name}>Attempt ${one.attempt}: <a href=${one.link} download>${WORDS[one.ending]} (${bytes(one.size)})</a></li>`)}
          </ul>`
        : html`<${Empty} title="No package of an earlier attempt was kept." />`}
  <//>`;
}
