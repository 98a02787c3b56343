// What each mode means, in a few words. A mode of somebody's own detector has none.
const MEANING = {
  unknown_tool_repeat: "tools that do not exist",
  poll_no_progress: "asks again, nothing moves",
  ping_pong: "two calls in turn: A‑B‑A‑B",
  cycle: "a longer round: A‑B‑C‑A‑B‑C",
  generic_repeat: "same call, same result",
  similar_query: "nearly the same query",
  error_repeat: "the same error, other arguments",
  volatile_repeat: "same but for ids and times",
  repeated_effect: "done already, done again",
  no_novelty: "call after call without news",
  retry_limit: "the tool's cap is used up",
  global_circuit_breaker: "errors, or no news, of any tool",
};

const WHAT_IT_MEANS = {
  ran: "ran",
  failed: "ran, and failed",
  nudged: "ran; the model was told that it repeats itself",
  reused: "did not run; the earlier result was given again",
  refused: "did not run; the model read why",
  aborted: "did not run; the turn was ended",
};

const whole = new Intl.NumberFormat("en");

/** "1 call", "1,200 calls". */
function count(number, word) {
  return `${whole.format(number)} ${word}${number === 1 ? "" : "s"}`;
}
