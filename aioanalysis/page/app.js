/** The page: who is signed in, which view is shown, and what is around it. */

import { currentSession, onSession, resume, signOut } from "./api.js";
import { announce, html, render, useEffect, useEvents, useState } from "./dom.js";
import { status as eventStatus } from "./events.js";
import { link, match, usePlace } from "./router.js";
import { Empty, Guarded, Heading, Loading, Problem } from "./ui.js";
import { VIEWS } from "./views/index.js";
import { SignIn } from "./views/signin.js";

const HOME = link("jobs");
const THEMES = { light: "Light", dark: "Dark", system: "System" };

function App() {
  const [session, setSession] = useState(undefined);
  const [problem, setProblem] = useState(null);
  const begin = () => {
    setProblem(null);
    resume().then(setSession, setProblem);
  };
  useEffect(() => {
    begin();
    return onSession(setSession);
  }, []);
  if (problem) return html`<main class="lone"><${Problem} problem=${problem} again=${begin} /></main>`;
  if (session === undefined) return html`<main class="lone"><${Loading} /></main>`;
  return session ? html`<${Shell} session=${session} />` : html`<${SignIn} />`;
}

function Shell({ session }) {
  const here = usePlace();
  const found = match(VIEWS, here.parts);
  useEffect(() => {
    if (!here.parts.length) location.replace(HOME);
  }, [here.path]);
  useEffect(() => {
    const moved = () => (document.body.dataset.navigated = "yes");
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const allowed = found && (!found.view.role || found.view.role === session.role || session.role === "system");
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} session=${session} current=${found?.view} />
    <${Connection} />
    <main id="main" tabindex="-1">
      ${allowed
        ? html`<${Guarded} key=${keyOf(found)}><${found.view.View} ...${found.params} query=${here.query} session=${session} /><//>`
        : here.parts.length > 0 && html`<${Nowhere} />`}
    </main>
  `;
}

/** A view stays while only its tab changes. */
function keyOf({ view, params }) {
  return [view.path, ...Object.entries(params).flatMap(([name, value]) => (name === "tab" ? [] : [value]))].join(" ");
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Header({ session, current }) {
  const views = VIEWS.filter((view) => view.nav && (!view.role || view.role === session.role || session.role === "system"));
  return html`<header class="top">
    <a class="brand" href=${HOME}><img src="page/icon.svg" alt="" width="24" height="24" />aioanalysis</a>
    <nav aria-label="Main">
      ${views.map(
        (view) =>
          html`<a
            key=${view.path}
            href=${link(view.path.split("/")[0])}
            aria-current=${current && current.path.split("/")[0] === view.path.split("/")[0] ? "page" : null}
            >${view.nav}</a
          >`,
      )}
    </nav>
    <details class="account">
      <summary>${session.user}</summary>
      <div class="menu">
        <p>Signed in as <strong>${session.user}</strong>${session.role === "user" ? "" : `, ${session.role}`}</p>
        <${Theme} />
        <a href="docs">API</a>
        <button type="button" onClick=${leave}>Sign out</button>
      </div>
    </details>
  </header>`;
}

async function leave() {
  try {
    await signOut();
    announce("Signed out.");
  } catch (problem) {
    announce(problem.message);
  }
}

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme || "system");
  const choose = (event) => {
    const chosen = event.target.value;
    setTheme(chosen);
    if (chosen === "system") {
      localStorage.removeItem("theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("theme", chosen);
      document.documentElement.dataset.theme = chosen;
    }
  };
  return html`<label class="inline">
    Appearance
    <select value=${theme} onChange=${choose}>
      ${Object.entries(THEMES).map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}
    </select>
  </label>`;
}

/** Says when nothing can be live; a short gap is not worth a word. */
function Connection() {
  const [shown, setShown] = useState(false);
  const [status, setStatus] = useState(eventStatus);
  useEvents((kind, data) => {
    if (kind === "status") setStatus(data.status);
  });
  useEffect(() => {
    if (status !== "lost") {
      setShown(false);
      return undefined;
    }
    const timer = setTimeout(() => setShown(true), 1500);
    return () => clearTimeout(timer);
  }, [status]);
  return html`<div class="connection" role="status">
    ${shown && currentSession() && "No connection to the service. What you see may be out of date; trying again …"}
  </div>`;
}

function Nowhere() {
  return html`<${Heading}>Not found<//>
    <${Empty} title="There is nothing at this address."><p><a href=${HOME}>Your analyses</a></p><//>`;
}

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.account[open]")) {
    if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.account[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

render(html`<${App} />`, document.getElementById("app"));
dispatchEvent(new Event("started"));
