// The filtered and sorted turns. Listeners are called when the selection changes.
const shown = { turns: [], listeners: [] };

function startTurns() {
  const form = byId("controls");
  const looping = data.turns.looping.reduce((sum, one) => sum + one, 0);
  const { which, mode } = form.elements;
  if (looping > 0) which.append(new Option(`turns with loops (${whole.format(looping)})`, "looping"));
  which.append(new Option(`all turns (${whole.format(turnCount)})`, "all"));
  for (const word of DECISIONS.slice(1)) if (totalOf(word) > 0) which.append(new Option(data.conditional && TRIPS.includes(word) ? `with a call that ${fateOf(word)}` : `with a call ${wordOf(word)}`, word));
  if (data.spent) form.elements.order.append(new Option("most tokens first", "tokens"));
  mode.append(new Option("any", ""), ...data.modes.slice(1).toSorted().map((name) => new Option(name)));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", choose);
  choose();
}

/** Show the turn of this name only, and move there. */
function chooseTurn(name) {
  const { which, mode, find } = byId("controls").elements;
  which.value = "all";
  mode.value = "";
  find.value = name;
  choose();
  byId("controls").scrollIntoView();
}

function choose() {
  const { which, mode, order, find } = byId("controls").elements;
  const fits = [fitsDecision(which.value), fitsMode(mode.value), fitsText(find.value.trim().toLowerCase())].filter(Boolean);
  const found = [];
  for (let turn = 0; turn < turnCount; turn++) if (fits.every((fit) => fit(turn))) found.push(turn);
  if (order.value === "trips") found.sort((a, b) => trips[b] - trips[a]);
  if (order.value === "tokens") found.sort((a, b) => tokensOf(b) - tokensOf(a));
  if (order.value === "calls") found.sort((a, b) => callsOf(b) - callsOf(a));
  shown.turns = found;
  byId("shown").textContent = `${count(found.length, "turn")} shown`;
  shown.listeners.forEach((listener) => listener());
}

function fitsDecision(value) {
  if (value === "all") return null;
  if (value === "looping") return (turn) => data.turns.looping[turn] > 0;
  const decision = DECISIONS.indexOf(value);
  return (turn) => countOf(turn, decision) > 0;
}

function fitsMode(name) {
  if (name === "") return null;
  const mode = data.modes.indexOf(name);
  return (turn) => trips[turn] > 0 && calls.mode.subarray(first[turn], first[turn + 1]).includes(mode);
}

function fitsText(text) {
  if (text === "") return null;
  const tools = new Set();
  data.tools.forEach((name, tool) => name.toLowerCase().includes(text) && tools.add(tool));
  return (turn) => {
    if (nameOf(turn).toLowerCase().includes(text)) return true;
    for (let call = first[turn]; call < first[turn + 1]; call++) if (tools.has(calls.tool[call])) return true;
    return false;
  };
}
