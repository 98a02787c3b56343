// The summary: a sentence and a few numbers.

function totalOf(word) {
  const decision = DECISIONS.indexOf(word);
  return data.counts.reduce((sum, counts) => sum + counts[decision], 0);
}

function leadSentence() {
  const { turns, calls: all, looping } = data.totals;
  if (all === 0) return "Nothing was recorded: no turn made any call.";
  if (looping === 0) return `No loop in ${count(turns, "turn")} and ${count(all, "call")}.`;
  const nudged = totalOf("nudged");
  const of = `${whole.format(looping)} of ${count(turns, "turn")} looped.`;
  const [ran, added] = data.conditional ? ["would not have run", "would have been added"] : ["did not run", "was added"];
  const what = `${whole.format(data.totals.kept_out)} of ${count(all, "call")} ${ran}`;
  return `${of} ${what}${nudged ? `, and a message to the model ${added} to ${count(nudged, "call")}` : ""}.${priceSentence()}`;
}

/** A row for each loop: what a guarded turn does, and how many calls would have been refused. */
function startLoops() {
  const { rows, all } = data.loops;
  byId("loops").hidden = rows.length === 0;
  const lines = rows.map(([run, turn, row]) => {
    const name = turnName(run, turn);
    return el("li", {}, el("code", {}, row), el("button", { type: "button", className: "muted", onclick: () => chooseTurn(name) }, name));
  });
  if (all > rows.length) lines.push(el("li", { className: "muted" }, `and ${count(all - rows.length, "more loop")}`));
  byId("loops").append(...lines);
}

/** The calls of loops with their arguments, if the user has chosen to see them. */
function startArguments() {
  if (data.shown.length === 0) return;
  const rows = data.shown.map(([number, tool, mode, action, text, hadRun]) => [
    el("code", {}, `${tool}(${text})`), number, [mode, action, hadRun].filter(Boolean).join(", "),
  ]);
  byId("arguments").append(table("The calls of loops, with their arguments", ["Calls of loops, with their arguments", "times", "Action that the rules want"], rows));
}

/** Tokens are in no sentence if none are known: a zero would read as if nothing had been spent. */
function priceSentence() {
  if (!data.spent?.tokens) return "";
  const { tokens, in_loops: inLoops, cost, cost_in_loops: costInLoops, currency } = data.spent;
  const money = cost === null ? "" : `, at a cost of ${price.format(costInLoops ?? 0)} of ${price.format(cost)}${currency && ` ${currency}`}`;
  return ` ${share.format(inLoops / tokens)} of ${count(tokens, "token")} were spent in loops${money}.`;
}

function startOverview() {
  byId("lead").textContent = data.lead ? data.lead + priceSentence() : leadSentence();
  startLoops();
  startArguments();
  const numbers = [["turns", data.totals.turns], ["looping turns", data.totals.looping], ["calls", data.totals.calls]];
  for (const [word, number] of numbers) byId("numbers").append(numberOf(word, number));
  for (const word of DECISIONS.slice(1)) {
    const total = totalOf(word);
    if (total > 0) byId("numbers").append(numberOf(fateOf(word), total, swatch(word)));
  }
  if (data.spent) {
    byId("numbers").append(numberOf("tokens", data.spent.tokens), numberOf("tokens in loops", data.spent.in_loops));
  }
  if (calls.length < data.totals.calls) {
    byId("left-out").hidden = false;
    byId("left-out").textContent = `All calls are counted. The turns below are the first ones recorded: ` +
      `${whole.format(calls.length)} of ${count(data.totals.calls, "call")}.`;
  }
}

function numberOf(word, number, ...mark) {
  return el("div", {}, el("dt", {}, ...mark, word), el("dd", {}, whole.format(number)));
}
