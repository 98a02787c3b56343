// The same turns as a table, page by page: for screen readers, and for copying.
const PAGE = 50;
const listing = { page: 0, wanted: false };

function startListing() {
  byId("as-table").addEventListener("click", () => {
    listing.wanted = !listing.wanted;
    byId("as-table").setAttribute("aria-pressed", String(listing.wanted));
    byId("timeline").hidden = listing.wanted;
    byId("listing").hidden = !listing.wanted;
    showListing(0);
  });
  shown.listeners.push(() => showListing(0));
}

function showListing(page) {
  if (!listing.wanted) return;
  listing.page = page;
  const words = DECISIONS.filter((word) => totalOf(word) > 0);
  const turns = shown.turns.slice(page * PAGE, (page + 1) * PAGE);
  const rows = turns.map((turn) => [
    nameOf(turn), callsOf(turn), ...words.map((word) => countOf(turn, DECISIONS.indexOf(word))),
    modesOf(turn).join(", "), shapeCell(turn),
  ]);
  const head = ["Turn", "calls", ...words.map(fateOf), "Modes", "Shape"];
  byId("listing").replaceChildren(table("Turns, call by call", head, rows), pager(page));
}

function shapeCell(turn) {
  const { keys, text } = shapeOf(turn);
  const letters = keys.slice(0, 8).map(({ letter, tool }) => `${letter} ${tool}`).join(", ");
  return el("div", {}, el("div", { className: "shape" }, text), el("div", { className: "muted" }, letters));
}

function pager(page) {
  const pages = Math.max(1, Math.ceil(shown.turns.length / PAGE));
  const turnTo = (target) => {
    showListing(target);
    byId("listing").querySelector(".scroll").focus();
  };
  const back = el("button", { type: "button", disabled: page === 0, onclick: () => turnTo(page - 1) }, "Previous");
  const on = el("button", { type: "button", disabled: page + 1 >= pages, onclick: () => turnTo(page + 1) }, "Next");
  return el("nav", { ariaLabel: "Pages of the table" }, back, `Page ${page + 1} of ${whole.format(pages)}`, on);
}
