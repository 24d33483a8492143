// While the page's modules come: one that fails, or takes long, would leave nothing to see or do.
// One that fails may be there a moment later: a browser gives up all it is loading when a network comes or goes.
{
  const PATIENCE = 10_000;
  const TRIES = 3;
  const PAUSE = 1_000;
  const COUNT = "starts";

  const tell = (text) => {
    const place = document.getElementById("starting");
    if (!place) return;
    place.querySelector("p").textContent = text;
    if (place.querySelector("button")) return;
    const button = document.createElement("button");
    button.textContent = "Try again";
    button.addEventListener("click", () => location.reload());
    place.append(button);
  };
  /** The tab's storage, with the count in it; null in a browser that keeps nothing. */
  const kept = () => {
    try {
      return sessionStorage;
    } catch {
      return null;
    }
  };
  /** Loads the page anew, no more than so often: the count is kept in the tab. */
  const again = () => {
    const tries = Number(kept() ? kept().getItem(COUNT) : TRIES);
    if (tries >= TRIES) return;
    kept().setItem(COUNT, tries + 1);
    setTimeout(() => location.reload(), PAUSE * 2 ** tries);
  };
  const slow = setTimeout(() => tell("The page is slow to load …"), PATIENCE);
  const failed = ({ target }) => {
    const script = target instanceof HTMLScriptElement;
    if (!script && target !== window) return;
    clearTimeout(slow);
    tell("The page could not be loaded.");
    if (script) again();
  };
  addEventListener("error", failed, true);
  addEventListener("started", () => kept()?.setItem(COUNT, 0));
}
