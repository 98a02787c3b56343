// The data: columns written by Python. Turn number t has the calls first[t] to first[t + 1] - 1.
const data = JSON.parse(document.getElementById("data").textContent);
const DECISIONS = data.decisions;
const FIRST_TRIP = DECISIONS.indexOf("nudged");
const AFTER = DECISIONS.indexOf("after");
const TRIPS = DECISIONS.slice(FIRST_TRIP, AFTER);

/** "refused"; a call after the end of its turn has two words more. */
function wordOf(word) {
  return word === "after" ? "after the end" : word;
}

/** "refused", or "would be refused" if the calls are judged after they ran. */
function fateOf(word) {
  return data.conditional && TRIPS.includes(word) ? `would be ${word}` : wordOf(word);
}

const calls = {
  tool: Uint32Array.from(data.calls.tool),
  same: Uint32Array.from(data.calls.same),
  decision: Uint8Array.from(data.calls.decision),
  mode: Uint32Array.from(data.calls.mode),
  why: Uint32Array.from(data.calls.why),
  length: data.calls.tool.length,
};
const first = Uint32Array.from([...data.turns.first, calls.length]);
const turnCount = data.turns.first.length;

/** The calls of each turn by decision: counts[t * DECISIONS.length + decision]. */
const counts = new Uint32Array(turnCount * DECISIONS.length);
const trips = new Uint32Array(turnCount);
let mostCalls = 0;

for (let turn = 0; turn < turnCount; turn++) {
  mostCalls = Math.max(mostCalls, callsOf(turn));
  for (let call = first[turn]; call < first[turn + 1]; call++) {
    const decision = calls.decision[call];
    counts[turn * DECISIONS.length + decision]++;
    if (decision >= FIRST_TRIP && decision < AFTER) trips[turn]++;
  }
}

function callsOf(turn) {
  return first[turn + 1] - first[turn];
}

function countOf(turn, decision) {
  return counts[turn * DECISIONS.length + decision];
}

function nameOf(turn) {
  return turnName(data.runs[data.turns.run[turn]], data.turns.name[turn]);
}

function turnName(run, name) {
  return `${run} · ${/^\d/.test(name) ? "turn " : ""}${name}`;
}

/** The modes that tripped in a turn, in order. */
function modesOf(turn) {
  const found = new Set(calls.mode.subarray(first[turn], first[turn + 1]));
  found.delete(0);
  return [...found].map((mode) => data.modes[mode]);
}

/** "14 calls · 9 refused · 2 nudged · 1 failed", or "14 calls · 1 failed · would be: 9 refused · 2 nudged". */
function sumOf(turn) {
  const parts = DECISIONS.map((word, decision) => [countOf(turn, decision), word]).slice(1)
    .filter(([number]) => number > 0).map(([number, word]) => [word, `${whole.format(number)} ${wordOf(word)}`]).reverse();
  const texts = (list) => list.map(([, text]) => text);
  if (!data.conditional) return [count(callsOf(turn), "call"), ...texts(parts)].join(" · ");
  const [ran, would] = [parts.filter(([word]) => !TRIPS.includes(word)), parts.filter(([word]) => TRIPS.includes(word))];
  const hypothesis = would.length ? [`would be: ${texts(would).join(" · ")}`] : [];
  return [count(callsOf(turn), "call"), ...texts(ran), ...hypothesis].join(" · ");
}

/** The tokens of a turn; 0 if they are not known. */
const tokensOf = (turn) => data.spent?.turns[turn]?.[0] ?? 0;

/** The tokens of a turn, its requests and its agents, as far as they are known. */
function spentOf(turn) {
  const [tokens, inLoops, requests, agents] = data.spent?.turns[turn] ?? [];
  if (tokens === undefined) return [];
  const numbers = [[requests, "request"], [agents, "agent"]].filter(([number]) => number > 0);
  return [`${count(tokens, "token")}, ${whole.format(inLoops)} in loops`, ...numbers.map(([number, word]) => count(number, word))];
}

/** True if times are since 1970, and not since the start of the run. */
const isClock = data.over.timed && data.over.start > 1e8;

function timeText(seconds) {
  if (!isClock) return `${whole.format(Math.round(seconds * 10) / 10)} s`;
  return new Date(seconds * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}
