// The chosen turn as text: its shape, the calls of its letters, and the chosen call.
const MOST_KEYS = 12;
const NO_CALL = "Choose a call in the strip, with the pointer or the arrow keys, to see its decision.";

function showDetail(turn, chosen) {
  if (turn === undefined) {
    byId("detail").replaceChildren(el("p", { className: "muted" }, "Choose a turn to see the calls of its letters."));
    return;
  }
  const { keys, text } = shapeOf(turn);
  const letters = keys.slice(0, MOST_KEYS).map(({ letter, tool, times }) =>
    el("li", {}, el("b", {}, letter), el("span", { className: "tool" }, tool), ` × ${whole.format(times)}`));
  if (keys.length > MOST_KEYS) letters.push(el("li", { className: "muted" }, `and ${keys.length - MOST_KEYS} more`));
  byId("detail").replaceChildren(
    el("h3", {}, nameOf(turn)),
    el("p", { className: "muted" }, [sumOf(turn), ...spentOf(turn), ...modesOf(turn)].join(" · ")),
    el("p", { className: "shape" }, text),
    el("ul", { ariaLabel: "Calls by letter" }, ...letters),
    el("p", { className: "chosen" }, ...(chosen === null ? [NO_CALL] : callParts(turn, chosen))),
  );
}

function callParts(turn, chosen) {
  const word = DECISIONS[calls.decision[first[turn] + chosen]];
  return [swatch(word), callText(turn, chosen)];
}

/** "call 5 of 14: read_file (A), refused, ping_pong". */
function callText(turn, chosen) {
  const call = first[turn] + chosen;
  const letter = letterOf(shapeOf(turn).lane[calls.same[call]]);
  const parts = [
    `call ${whole.format(chosen + 1)} of ${whole.format(callsOf(turn))}: ${data.tools[calls.tool[call]]}`,
    letter === "·" ? "made once" : `call ${letter}`,
    fateOf(DECISIONS[calls.decision[call]]),
  ];
  if (calls.why[call] > 0) parts.push(data.whys[calls.why[call]]);
  if (calls.mode[call] > 0) parts.push(data.modes[calls.mode[call]]);
  if (data.at) parts.push(timeText(data.at[call]));
  return parts.join(", ");
}

/** The text of a row for screen readers. */
function turnText(turn) {
  const modes = modesOf(turn).join(", ");
  return [nameOf(turn), sumOf(turn), modes, `shape: ${shapeOf(turn).text}`].filter(Boolean).join("; ");
}
