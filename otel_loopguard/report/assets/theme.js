// Light or dark: the system's setting, until the user chooses. Canvases are redrawn on a change.
const drawnAnew = [];
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
let palette = {};

function applyTheme() {
  const chosen = document.querySelector("input[name=theme]:checked").value;
  const theme = chosen === "auto" ? (systemIsDark.matches ? "dark" : "light") : chosen;
  document.documentElement.dataset.theme = theme;
  const style = getComputedStyle(document.documentElement);
  const names = ["muted", "line", "card", "focus", "edge", ...DECISIONS, ...DECISIONS.map((word) => `${word}-ink`)];
  palette = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  drawnAnew.forEach((draw) => draw());
}

function startTheme() {
  document.querySelector(".theme").addEventListener("change", applyTheme);
  systemIsDark.addEventListener("change", applyTheme);
  applyTheme();
}
