// While the page's modules come: one that fails, or takes long, would leave nothing to see or do.
{
  const PATIENCE = 10_000;
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
  const failed = ({ target }) => {
    if (target === window || target instanceof HTMLScriptElement) tell("The page could not be loaded.");
  };
  addEventListener("error", failed, true);
  setTimeout(() => tell("The page is slow to load …"), PATIENCE);
}
