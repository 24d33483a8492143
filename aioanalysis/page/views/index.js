/**
 * The views. `path` is what follows `#/`; `View` gets the path's parts by name, `query` (URLSearchParams)
 * and `session`. `nav` is its name in the navigation, `role` who may see it (none: anyone signed in).
 * Each view shows one <h1>, which gets the focus when the view is entered, through `Heading` of ui.js.
 */

import { Dashboard } from "./dashboard.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Methods } from "./methods.js";
import { Submit } from "./submit.js";

export const VIEWS = [
  { path: "jobs", View: Jobs, nav: "Analyses" },
  { path: "jobs/:id/:tab?", View: Job },
  { path: "new", View: Methods, nav: "New analysis" },
  { path: "new/:title", View: Submit },
  { path: "dashboard/:tab?", View: Dashboard, nav: "Dashboard", role: "administrator" },
];
