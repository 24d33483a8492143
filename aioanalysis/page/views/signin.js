/** Signing in with a key. */

import { signIn } from "../api.js";
import { html, useEffect, useRef, useState } from "../dom.js";

export function SignIn() {
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => {
    document.title = "Sign in · Analyses";
    field.current.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    const key = field.current.value.trim();
    if (!key) {
      setProblem("Enter your key.");
      field.current.focus();
      return;
    }
    setBusy(true);
    setProblem(null);
    try {
      await signIn(key);
    } catch (found) {
      setBusy(false);
      setProblem(found.status === 401 ? "Nobody holds this key. Check that it is complete." : found.message);
      field.current?.select();
    }
  };
  return html`<main class="lone">
    <form class="card signin" onSubmit=${submit} novalidate>
      <img src="page/icon.svg" alt="" width="40" height="40" />
      <h1>Sign in</h1>
      <p class="dim">Analyses of DNA barcode records.</p>
      <div class="field" data-wrong=${problem ? "yes" : null}>
        <label for="key">API key</label>
        <input
          id="key"
          type="password"
          autocomplete="current-password"
          spellcheck="false"
          ref=${field}
          aria-describedby=${problem ? "key-problem" : "key-help"}
          aria-invalid=${problem ? "true" : null}
        />
        ${problem
          ? html`<p class="wrong" id="key-problem" role="alert">${problem}</p>`
          : html`<p class="help" id="key-help">The one you use with the workbench or the command line.</p>`}
      </div>
      <button class="primary" disabled=${busy}>${busy ? "Signing in …" : "Sign in"}</button>
    </form>
  </main>`;
}
