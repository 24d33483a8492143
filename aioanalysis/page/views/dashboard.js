/** For administrators: everybody's analyses, the workers, failures, load, and what lies in storage. */

import { html, useEffect, useRef } from "../dom.js";
import { link } from "../router.js";
import { Heading, Tabs } from "../ui.js";
import { Analyses } from "../dashboard/analyses.js";
import { Failures } from "../dashboard/failures.js";
import { Files } from "../dashboard/files.js";
import { Orphans } from "../dashboard/orphans.js";
import { Overview } from "../dashboard/overview.js";
import { Users } from "../dashboard/users.js";
import { Workers } from "../dashboard/workers.js";

const TABS = [
  { name: "overview", label: "Overview", Tab: Overview },
  { name: "analyses", label: "Analyses", Tab: Analyses },
  { name: "workers", label: "Workers", Tab: Workers },
  { name: "failures", label: "Failures", Tab: Failures },
  { name: "users", label: "Users", Tab: Users },
  { name: "files", label: "Files", Tab: Files },
  { name: "orphans", label: "Orphaned files", Tab: Orphans },
];

export function Dashboard({ tab, query }) {
  const current = TABS.find(({ name }) => name === (tab || "overview")) || TABS[0];
  const tabs = TABS.map(({ name, label }) => ({ name, label, href: link("dashboard", name) }));
  const place = useRef(null);
  useEffect(() => {
    place.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current.name]);
  return html`
    <${Heading} title=${`${current.label} · Dashboard`}>Dashboard<//>
    <div ref=${place}><${Tabs} tabs=${tabs} current=${current.name} label="Dashboard" /></div>
    <section class="stack dashboard" aria-label=${current.label}>
      <${current.Tab} key=${current.name} query=${query} />
    </section>
  `;
}
