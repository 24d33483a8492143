// Before the first paint, so that a chosen theme does not flash: "light", "dark", or none for the system's.
{
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
