// Trips over time: one small chart a mode, all on the same time axis, drawn by uPlot.
const { start: binStart, width: binWidth } = data.over;
const bins = data.over.rows[0]?.[2].length ?? 0;
const stretch = bins * binWidth;
/** A stretch under a minute has seconds from its start on its axis, so that the ticks are round. */
const fromZero = isClock && stretch < 60;
const origin = fromZero ? 0 : binStart;
const places = Array.from({ length: bins }, (_, bin) => origin + (bin + 0.5) * binWidth);

/** [{mode, total, by: {nudged: [...], refused: [...]}}], the most frequent first. */
function modeRows() {
  const rows = new Map();
  for (const [mode, decision, bins] of data.over.rows) {
    const row = rows.get(mode) ?? { mode: data.modes[mode] || "(none)", total: 0, by: {} };
    row.by[DECISIONS[decision]] = bins;
    row.total += bins.reduce((sum, value) => sum + value, 0);
    rows.set(mode, row);
  }
  return [...rows.values()].sort((a, b) => b.total - a.total);
}

function startOverTime() {
  const rows = modeRows();
  const note = data.over.timed ? `From ${timeText(binStart)} on; the scale is each row's own.` :
    "No times were recorded: from the first call to the last, in the order of recording. The scale is each row's own.";
  byId("over-time-note").textContent = rows.length ? note : "";
  if (rows.length === 0) {
    byId("over-time").append(el("p", { className: "empty" }, "No trips."));
    byId("over-time-table").hidden = true;
    return;
  }
  const charts = rows.map((row, index) => modeChart(row, index === rows.length - 1));
  byId("over-time-table").addEventListener("toggle", () => showBins(rows), { once: true });
  drawnAnew.push(() => charts.forEach((chart) => chart.redraw(false)));
  new ResizeObserver(() => charts.forEach(fit)).observe(byId("over-time"));
}

function fit(chart) {
  const width = chart.root.parentElement.clientWidth;
  if (width > 0 && width !== chart.width) chart.setSize({ width, height: chart.height });
}

function modeChart(row, isLast) {
  const plot = el("div", { className: "plot" });
  const sum = el("div", { className: "sum" });
  const label = el("div", {}, el("code", {}, row.mode), el("div", { className: "muted" }, MEANING[row.mode] ?? ""));
  byId("over-time").append(el("div", { className: "mode-row" }, label, plot, sum));
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", `${row.mode}: ${count(row.total, "trip")}; the table below has the numbers`);
  const words = TRIPS.filter((word) => row.by[word]);
  const stacked = stack(words.map((word) => row.by[word]));
  const options = {
    width: plot.clientWidth || 300,
    height: isLast ? 72 : 46,
    padding: [6, 22, isLast ? 0 : 4, 4],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: "trips" } },
    scales: { x: { time: isClock && !fromZero, range: [origin, origin + stretch] }, y: { range: (_, low, high) => [0, high || 1] } },
    axes: [axis(isLast), { show: false }],
    series: [{}, ...words.toReversed().map(bars)],
    hooks: { setCursor: [(chart) => tell(sum, row, words, chart.cursor.idx)], draw: [baseline] },
  };
  tell(sum, row, words, null);
  return new uPlot(options, [places, ...stacked.toReversed()], plot);
}

/** Stack the series. The tallest is drawn first, so that the others are in front of it. */
function stack(series) {
  const below = new Array(places.length).fill(0);
  return series.map((bins) => bins.map((value, bin) => (below[bin] += value)));
}

function bars(word) {
  const fill = () => palette[word];
  return { fill, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.82, 18, 2], radius: 0.12 }) };
}

function axis(show) {
  const text = isClock ? clockText : data.over.timed ? timeText : (value) => whole.format(value);
  const values = (_, splits) => splits.map(text);
  return { show, size: 26, gap: 4, stroke: () => palette.muted, grid: { show: false }, ticks: { show: false }, font: "12px system-ui, sans-serif", values };
}

/** Format a time for the length of the axis: seconds from its start, the time of day, or date and time. */
function clockText(seconds) {
  if (fromZero) return `+${Number(seconds.toFixed(2))} s`;
  const finer = stretch < 600 ? { second: "2-digit" } : stretch > 86_400 ? { month: "short", day: "numeric" } : {};
  return new Date(seconds * 1000).toLocaleString("en", { ...finer, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

function baseline(chart) {
  const { left, top, width, height } = chart.bbox;
  chart.ctx.fillStyle = palette.line;
  chart.ctx.fillRect(left, top + height - 1, width, 1);
}

/** The text next to the chart: its total, or the values under the pointer. */
function tell(sum, row, words, bin) {
  if (bin === null || bin === undefined) {
    sum.replaceChildren(el("b", {}, whole.format(row.total)), row.total === 1 ? "trip" : "trips");
    return;
  }
  const here = words.filter((word) => row.by[word][bin] > 0).map((word) => `${row.by[word][bin]} ${fateOf(word)}`);
  sum.textContent = `${binText(bin)}\n${here.join("\n") || "none"}`;
}

function binText(bin) {
  const from = origin + bin * binWidth;
  if (isClock) return clockText(from);
  return data.over.timed ? timeText(from) : `from call ${whole.format(Math.ceil(from) + 1)}`;
}

function showBins(rows) {
  const lines = [];
  for (let bin = 0; bin < places.length; bin++) {
    const sums = rows.map((row) => Object.values(row.by).reduce((sum, bins) => sum + bins[bin], 0));
    if (sums.some(Boolean)) lines.push([binText(bin), ...sums]);
  }
  byId("over-time-table").append(table("Trips over time, by mode", ["From", ...rows.map((row) => row.mode)], lines));
}
