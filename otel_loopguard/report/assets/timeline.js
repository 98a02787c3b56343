// The turns as scrolling rows. Only visible rows have elements; their strips share one canvas.
const SIZES = [3, 6, 10, 16, 22];
const view = { row: 0, call: null, size: 3, waiting: false };
let viewport, layer, rowsBox, strips, geometry;

function startTimeline() {
  [viewport, layer, rowsBox, strips] = ["viewport", "layer", "rows", "strips"].map(byId);
  byId("timeline").hidden = false;
  viewport.addEventListener("scroll", drawSoon, { passive: true });
  viewport.addEventListener("keydown", onKey);
  viewport.addEventListener("click", onClick);
  viewport.addEventListener("mousemove", onPointer);
  viewport.addEventListener("mouseleave", () => (byId("tip").hidden = true));
  byId("smaller").addEventListener("click", () => resize(view.size - 1));
  byId("larger").addEventListener("click", () => resize(view.size + 1));
  shown.listeners.push(() => {
    viewport.scrollTop = viewport.scrollLeft = 0;
    chooseCall(0, null);
    layOut();
  });
  drawnAnew.push(drawSoon);
  new ResizeObserver(layOut).observe(viewport);
  chooseCall(0, null);
}

function resize(size) {
  view.size = Math.min(Math.max(size, 0), SIZES.length - 1);
  byId("smaller").disabled = view.size === 0;
  byId("larger").disabled = view.size === SIZES.length - 1;
  layOut();
}

/** Compute sizes from the width of the page, the size of a cell and the number of turns. */
function layOut() {
  const style = getComputedStyle(byId("timeline"));
  const [label, row] = ["--label", "--row"].map((name) => parseInt(style.getPropertyValue(name), 10));
  const cell = SIZES[view.size];
  // On narrow pages the strips are below their labels.
  geometry = { label, row, cell, margin: label ? 0 : 10, below: label ? 0 : row - 68 };
  const height = shown.turns.length * row;
  viewport.style.height = `${Math.min(Math.max(height, row) + 16, 7.5 * 68)}px`;
  const longest = shown.turns.reduce((most, turn) => Math.max(most, callsOf(turn)), 0);
  const space = byId("space");
  space.style.width = `${Math.max(label + 2 * geometry.margin + longest * cell + 12, viewport.clientWidth)}px`;
  space.style.height = `${Math.max(height, viewport.clientHeight)}px`;
  byId("beyond").hidden = space.offsetWidth <= viewport.clientWidth;
  layer.style.width = `${viewport.clientWidth}px`;
  layer.style.height = `${viewport.clientHeight}px`;
  drawSoon();
}

function drawSoon() {
  if (view.waiting) return;
  view.waiting = true;
  requestAnimationFrame(() => {
    view.waiting = false;
    draw();
  });
}

function draw() {
  if (!geometry || viewport.clientWidth === 0) return;
  const { label, row, cell, margin, below } = geometry;
  const width = viewport.clientWidth - label;
  const ctx = sized(strips, width, viewport.clientHeight);
  const from = Math.floor(viewport.scrollTop / row);
  const to = Math.min(shown.turns.length, Math.ceil((viewport.scrollTop + viewport.clientHeight) / row));
  const rows = [];
  for (let index = from; index < to; index++) {
    const turn = shown.turns[index];
    const top = index * row - viewport.scrollTop;
    rows.push(rowOf(turn, index, top));
    const chosen = index === view.row ? view.call : null;
    drawStrip(ctx, turn, { x: margin, y: top + below, left: viewport.scrollLeft, width, cell, chosen });
  }
  rowsBox.replaceChildren(...rows);
  const active = rows.some((one) => one.id === `turn-${view.row}`);
  if (active) viewport.setAttribute("aria-activedescendant", `turn-${view.row}`);
  else viewport.removeAttribute("aria-activedescendant");
}

function rowOf(turn, index, top) {
  const made = el("div", { id: `turn-${index}`, className: "turn", role: "option", ariaLabel: turnText(turn) },
    el("div", { role: "presentation" },
      el("span", { className: "name", title: nameOf(turn) }, nameOf(turn)),
      el("span", { className: "sums", title: sumOf(turn) }, sumOf(turn)),
      el("span", { className: "modes" }, modesOf(turn).join(" "))));
  made.ariaSelected = String(index === view.row);
  made.ariaSetSize = String(shown.turns.length);
  made.ariaPosInSet = String(index + 1);
  made.style.transform = `translateY(${top}px)`;
  return made;
}

function chooseCall(row, call) {
  view.row = Math.min(Math.max(row, 0), Math.max(shown.turns.length - 1, 0));
  const turn = shown.turns[view.row];
  view.call = call === null || turn === undefined ? null : Math.min(Math.max(call, 0), callsOf(turn) - 1);
  showDetail(turn, view.call);
  drawSoon();
}

/** Scroll just far enough to show the chosen row and call. */
function intoSight() {
  const { label, row, cell } = geometry;
  const top = view.row * row;
  if (top < viewport.scrollTop) viewport.scrollTop = top;
  if (top + row > viewport.scrollTop + viewport.clientHeight) viewport.scrollTop = top + row - viewport.clientHeight;
  const left = (view.call ?? 0) * cell;
  const width = viewport.clientWidth - label;
  if (left < viewport.scrollLeft + cell) viewport.scrollLeft = left - cell;
  if (left + 2 * cell > viewport.scrollLeft + width) viewport.scrollLeft = left + 2 * cell - width;
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || shown.turns.length === 0) return;
  const page = Math.max(1, Math.floor(viewport.clientHeight / geometry.row));
  const rows = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const last = callsOf(shown.turns[view.row]) - 1;
  const nextCall = { ArrowRight: (view.call ?? -1) + 1, ArrowLeft: (view.call ?? last + 1) - 1, Home: 0, End: last };
  if (event.key in rows) chooseCall(view.row + rows[event.key], null);
  else if (event.key in nextCall) chooseCall(view.row, nextCall[event.key]);
  else return;
  event.preventDefault();
  intoSight();
  byId("said").textContent = view.call === null ? "" : callText(shown.turns[view.row], view.call);
}

/** The row and the call under the pointer; the call is null outside of the strip. */
function under(event) {
  const box = viewport.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - viewport.clientLeft, event.clientY - box.top - viewport.clientTop];
  const row = Math.floor((y + viewport.scrollTop) / geometry.row);
  const call = Math.floor((x - geometry.label - geometry.margin + viewport.scrollLeft) / geometry.cell);
  const turn = shown.turns[row];
  const onStrip = turn !== undefined && x > geometry.label && call >= 0 && call < callsOf(turn);
  return { row, turn, call: onStrip ? call : null, x, y };
}

function onClick(event) {
  const { row, turn, call } = under(event);
  if (turn !== undefined) chooseCall(row, call);
}

function onPointer(event) {
  const tip = byId("tip");
  const { turn, call, x, y } = under(event);
  tip.hidden = call === null;
  if (call === null) return;
  const [where, ...rest] = callText(turn, call).split(", ");
  const [position, tool] = where.split(/: (.*)/s);
  tip.replaceChildren(el("b", {}, tool), position, el("br"), rest.join(" · "));
  tip.style.left = `${Math.min(x + 14, viewport.clientWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${y + 18}px`;
}
