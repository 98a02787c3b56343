const WHAT_IT_MEANS = {
  ran: "ran",
  failed: "ran, and failed",
  nudged: "ran; a message to the model was added",
  reused: "did not run; the model got the earlier result",
  refused: "did not run; the model read a refusal",
  concluded: "did not run; from here on the model is asked for its answer without tools, if its client is read",
  aborted: "did not run; the turn was ended",
  after: "the turn was over before",
};

/** The same in the report of recorded calls, which have run whatever the decision is. */
const WHAT_IT_WOULD_MEAN = {
  ran: "ran",
  failed: "ran, and failed",
  nudged: "would have run, with a message to the model",
  reused: "would not have run; the model would have got the earlier result",
  refused: "would not have run; the model would have read a refusal",
  concluded: "would not have run; the model would have been asked for its answer without tools, if its client is read",
  aborted: "would not have run; the turn would have been ended before",
  after: "would not have been made; the turn would have been over",
};

const whole = new Intl.NumberFormat("en");
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });
/** A cost, without its currency. */
const price = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** "1 call", "1,200 calls". */
function count(number, word) {
  return `${whole.format(number)} ${word}${number === 1 ? "" : "s"}`;
}
