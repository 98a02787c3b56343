// The tools with the most trips: a table with bars in the middle column.
const MOST_TOOLS = 12;

function startTools() {
  const found = data.tools.map((name, tool) => ({ name, counts: data.counts[tool], trips: tripsIn(data.counts[tool]) }))
    .filter((tool) => tool.trips > 0).sort((a, b) => b.trips - a.trips);
  if (found.length === 0) {
    byId("tools").append(el("p", { className: "empty" }, "No tool looped."));
    return;
  }
  const longest = found[0].trips;
  const head = ["Tool", "", "trips", "all calls"].map((word, column) =>
    el("th", { scope: "col", className: column > 1 ? "number" : "" }, word));
  head[1].append(el("span", { className: "hidden" }, "What was done"));
  const rows = found.slice(0, MOST_TOOLS).map((tool) => toolRow(tool, longest));
  byId("tools").append(el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
  if (found.length > MOST_TOOLS) byId("tools").append(otherTools(found.slice(MOST_TOOLS)));
}

function tripsIn(counts) {
  return counts.slice(FIRST_TRIP, AFTER).reduce((sum, value) => sum + value, 0);
}

function toolRow({ name, counts, trips: number }, longest) {
  const bar = el("div", { className: "bar", ariaHidden: "true" });
  const told = [];
  TRIPS.forEach((word, index) => {
    const value = counts[FIRST_TRIP + index];
    if (value === 0) return;
    const part = swatch(word);
    part.className = "";
    part.style.width = `${(value / longest) * 100}%`;
    bar.append(part);
    told.push(`${whole.format(value)} ${fateOf(word)}`);
  });
  const calls = counts.reduce((sum, value) => sum + value, 0);
  return el("tr", { title: told.join(", ") },
    el("th", { scope: "row", className: "tool tool-name" }, name),
    el("td", { className: "bar-cell" }, bar, el("span", { className: "hidden" }, told.join(", "))),
    el("td", { className: "number" }, whole.format(number)),
    el("td", { className: "number muted" }, whole.format(calls)));
}

function otherTools(tools) {
  const rows = tools.slice(0, 500).map((tool) => [tool.name, tool.trips]);
  return el("details", {}, el("summary", {}, `${count(tools.length, "more tool")}`), table("Further tools", ["Tool", "Trips"], rows));
}
