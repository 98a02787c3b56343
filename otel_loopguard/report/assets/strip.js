// One turn as a strip of cells. Colour and the mark below show the decision; letter and height identify the call.
const STRIP = { top: 7, spread: 20, height: 18, once: 8, tripped: 13, marks: 55, mark: 3.5 };

/** Draw the calls of a turn that are between `left` and `left + width` of its strip, at `x`, `y` of the canvas. */
function drawStrip(ctx, turn, { x, y, left, width, cell, chosen }) {
  const shape = shapeOf(turn);
  const from = first[turn] + Math.max(0, Math.floor(left / cell) - 1);
  const to = Math.min(first[turn + 1], first[turn] + Math.ceil((left + width) / cell) + 1);
  const placed = [];
  for (let call = from; call < to; call++) {
    const lane = shape.lane[calls.same[call]];
    const word = DECISIONS[calls.decision[call]];
    placed.push({ word, lane, letter: letterOf(lane), x: x + (call - first[turn]) * cell - left, y: y + laneTop(lane, shape.keys.length) });
  }
  drawLine(ctx, placed, cell);
  for (const one of placed) {
    drawCell(ctx, one, cell);
    if (cell >= 6) drawMark(ctx, one.word, one.x + cell / 2, y + STRIP.marks, Math.min(STRIP.mark, cell / 2 - 0.75));
  }
  if (chosen !== null && chosen < callsOf(turn)) drawChoice(ctx, x + chosen * cell - left, y, cell);
}

function laneTop(lane, lanes) {
  if (lane === ONCE || lanes < 2) return STRIP.top + STRIP.spread / 2;
  return STRIP.top + (lane * STRIP.spread) / (lanes - 1);
}

/** Connect the repeated calls by a line, which shows the shape. */
function drawLine(ctx, placed, cell) {
  ctx.beginPath();
  let before = null;
  for (const one of placed) {
    if (one.lane !== ONCE && before !== null) {
      ctx.moveTo(before.x + cell / 2, before.y + STRIP.height / 2);
      ctx.lineTo(one.x + cell / 2, one.y + STRIP.height / 2);
    }
    before = one.lane === ONCE ? null : one;
  }
  ctx.strokeStyle = palette.muted;
  ctx.lineWidth = 1;
  ctx.stroke();
}

function drawCell(ctx, { word, lane, letter, x, y }, cell) {
  const gap = cell >= 8 ? 1 : cell >= 4 ? 0.5 : 0;
  const once = lane === ONCE;
  // A call that was made once and succeeded is no part of a loop, so it is drawn faintly.
  const most = once ? (TRIPS.includes(word) ? STRIP.tripped : STRIP.once) : STRIP.height;
  const width = Math.min(most, cell - 2 * gap);
  const height = most;
  const box = [x + (cell - width) / 2, y + (STRIP.height - height) / 2, width, height];
  const hollow = word === "failed";
  ctx.beginPath();
  ctx.roundRect(...inset(box, hollow ? 0.75 : word === "ran" ? 0.5 : 0), Math.min(once ? 2 : 3.5, width / 3));
  ctx.fillStyle = hollow ? palette.card : palette[word];
  ctx.fill();
  if (hollow || (word === "ran" && cell >= 6)) {
    ctx.strokeStyle = hollow ? palette.failed : palette.edge;
    ctx.lineWidth = hollow ? 1.5 : 1;
    ctx.stroke();
  }
  if (once || cell < 13) return;
  ctx.fillStyle = palette[`${word}-ink`];
  ctx.fillText(letter, x + cell / 2, y + STRIP.height / 2 + 0.5);
}

function inset([x, y, width, height], by) {
  return [x + by, y + by, Math.max(width - 2 * by, 0.5), height - 2 * by];
}

/** Draw the mark of a decision: none, bar, triangle, ring, cross, diamond, square, dot. */
function drawMark(ctx, word, x, y, half = STRIP.mark) {
  if (word === "ran") return;
  ctx.strokeStyle = ctx.fillStyle = palette[word];
  ctx.lineWidth = 1.75;
  ctx.beginPath();
  if (word === "failed") line(ctx, x - half, y, x + half, y);
  if (word === "reused") ctx.arc(x, y, half - 0.5, 0, 2 * Math.PI);
  if (word === "refused") {
    line(ctx, x - half, y - half, x + half, y + half);
    line(ctx, x - half, y + half, x + half, y - half);
  }
  if (word === "nudged") {
    ctx.moveTo(x, y - half);
    ctx.lineTo(x + half, y + half);
    ctx.lineTo(x - half, y + half);
    ctx.fill();
  } else if (word === "concluded") {
    ctx.moveTo(x, y - half - 1);
    ctx.lineTo(x + half + 1, y);
    ctx.lineTo(x, y + half + 1);
    ctx.lineTo(x - half - 1, y);
    ctx.fill();
  } else if (word === "after") {
    ctx.arc(x, y, half / 2, 0, 2 * Math.PI);
    ctx.fill();
  } else if (word === "aborted") ctx.fillRect(x - half, y - half, 2 * half, 2 * half);
  else ctx.stroke();
}

function line(ctx, fromX, fromY, toX, toY) {
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
}

function drawChoice(ctx, x, y, cell) {
  ctx.strokeStyle = palette.focus;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.roundRect(x - 1, y + 3, Math.max(cell, 4) + 2, STRIP.marks + 4, 4);
  ctx.stroke();
}

/** Create a canvas of this size in the resolution of the screen. */
function sized(canvas, width, height) {
  const fine = devicePixelRatio || 1;
  canvas.width = Math.round(width * fine);
  canvas.height = Math.round(height * fine);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(fine, 0, 0, fine, 0, 0);
  ctx.font = "600 11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  return ctx;
}

/** The legend: each decision as drawn in a strip, with its description. */
function startLegend() {
  const meaning = data.conditional ? WHAT_IT_WOULD_MEAN : WHAT_IT_MEANS;
  for (const word of DECISIONS) {
    const canvas = el("canvas", { ariaHidden: "true" });
    byId("legend").append(el("li", {}, canvas, el("span", {}, el("b", {}, wordOf(word)), ` ${meaning[word].replace(/^ran$/, "")}`)));
    drawnAnew.push(() => {
      const ctx = sized(canvas, 18, 34);
      drawCell(ctx, { word, lane: 0, letter: "A", x: 0, y: 2 }, 18);
      drawMark(ctx, word, 9, 28);
    });
  }
}
