// Create elements from text only: a tool's name is never markup.

function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

function swatch(word) {
  const made = el("i", { className: "swatch", ariaHidden: "true" });
  made.style.setProperty("--colour", `var(--${word})`);
  return made;
}

/** A table of rows. The first cell of a row is its heading; numbers are aligned to the right. */
function table(caption, head, rows) {
  const headings = head.map((word, column) =>
    el("th", { scope: "col", className: typeof rows[0]?.[column] === "number" ? "number" : "" }, word));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: caption },
    el("table", {},
      el("caption", { className: "hidden" }, caption),
      el("thead", {}, el("tr", {}, ...headings)),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(tableCell))))));
}

function tableCell(value, column) {
  if (typeof value === "number") return el("td", { className: "number" }, whole.format(value));
  return column === 0 ? el("th", { scope: "row" }, value) : el("td", {}, value);
}
