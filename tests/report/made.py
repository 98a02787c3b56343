"""Reports made up for tests: a few turns of each shape, and very many."""

from __future__ import annotations

import random

from otel_loopguard.report import Call, Run

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;\u2028\u202e\ud800"
MODES = ("generic_repeat", "ping_pong", "cycle", "error_repeat", "poll_no_progress", "no_novelty")
NOON = 1_763_726_400.0


def ping_pong(times: int = 5) -> Run:
    """Two calls in turn: both run, one is nudged, then all are refused."""
    calls = [Call("open_page", 1), Call("go_back", 2), Call("open_page", 1), Call("go_back", 2, "nudged", "ping_pong")]
    refused = [Call(tool, one, "refused", "ping_pong") for tool, one in (("open_page", 1), ("go_back", 2))]
    return Run("pages", 0, [call._replace(at=NOON + at) for at, call in enumerate(calls + refused * times)])


def plain(run_id: str = "plain", length: int = 6) -> Run:
    """Calls that are made once, the last of which fails."""
    calls = [Call(f"tool_{number}", number, "ran", "", NOON + 60 * number) for number in range(length)]
    return Run(run_id, 0, [*calls[:-1], calls[-1]._replace(decision="failed")])


def every_decision() -> Run:
    """One call again and again, until the turn is ended."""
    words = ["ran", "failed", "nudged", "reused", "refused", "concluded", "aborted"]
    return Run("all", 1, [Call("read", 7, word, "" if word in words[:2] else "generic_repeat", NOON) for word in words])


def many(number: int = 100_000) -> list[Run]:
    """Many calls in turns of all lengths, a third of which loop."""
    rng = random.Random(7)
    runs: list[Run] = []
    left, at = number, NOON
    while left > 0:
        length = min(left, rng.choice((3, 8, 20, 60, 300)))
        left -= length
        calls, period = [], len(runs) % 4 + 1
        for index in range(length):
            at += rng.random()
            if len(runs) % 3 == 0 and index > period:
                decision = rng.choice(("nudged", "refused", "refused", "reused", "concluded", "aborted"))
                calls.append(Call(f"tool_{index % period}", index % period, decision, MODES[len(runs) % 6], at))
            else:
                calls.append(Call(f"tool_{rng.randrange(40)}", 1_000 + index, "ran", "", at))
        runs.append(Run(f"run-{len(runs)}", 0, calls))
    return runs
