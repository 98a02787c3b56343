// The shape of a turn: its repeated calls, in their order.
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LONGEST_PERIOD = 8;
const MOST_TOKENS = 300;
const ONCE = -1;
const shapes = new Map();

/**
 * {lane, keys, text}: `lane` says for each distinct call of the turn which letter it has, or ONCE; `keys` what the
 * letters stand for; `text` the order in words, as "A×3 (B C)×7".
 */
function shapeOf(turn) {
  const known = shapes.get(turn);
  if (known) return known;
  if (shapes.size > 300) shapes.clear();
  const made = makeShape(turn);
  shapes.set(turn, made);
  return made;
}

function makeShape(turn) {
  const [start, end] = [first[turn], first[turn + 1]];
  const times = [];
  const tools = [];
  for (let call = start; call < end; call++) {
    const same = calls.same[call];
    times[same] = (times[same] ?? 0) + 1;
    tools[same] = calls.tool[call];
  }
  const lane = new Int32Array(times.length).fill(ONCE);
  const keys = [];
  times.forEach((number, same) => {
    if (number < 2) return;
    lane[same] = keys.length;
    keys.push({ letter: letterOf(keys.length), tool: data.tools[tools[same]], times: number });
  });
  const tokens = Array.from(calls.same.subarray(start, Math.min(end, start + MOST_TOKENS)), (same) => letterOf(lane[same]));
  return { lane, keys, text: inOrder(tokens) + (end - start > MOST_TOKENS ? " …" : "") };
}

function letterOf(lane) {
  return lane === ONCE ? "·" : (LETTERS[lane] ?? "+");
}

/** Abbreviate repetitions: A A A B C B C is "A×3 (B C)×2". */
function inOrder(tokens) {
  const parts = [];
  for (let at = 0; at < tokens.length;) {
    const { period, laps } = bestLap(tokens, at);
    const lap = tokens.slice(at, at + period).join(" ");
    parts.push(laps === 1 ? lap : `${period === 1 ? lap : `(${lap})`}×${laps}`);
    at += period * laps;
  }
  return parts.join(" ");
}

function bestLap(tokens, at) {
  let best = { period: 1, laps: 1 };
  for (let period = 1; period <= LONGEST_PERIOD && at + 2 * period <= tokens.length; period++) {
    let end = at + period;
    while (end < tokens.length && tokens[end] === tokens[end - period]) end++;
    const laps = Math.floor((end - at) / period);
    if (laps > 1 && laps * period > best.laps * best.period) best = { period, laps };
  }
  return best;
}
