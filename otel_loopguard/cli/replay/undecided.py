"""What an input does not hold, and which modes can therefore not be decided, or only in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.core.policy.policy import Policy

NO_TIME, NO_TOOLS, OWN, FOREIGN, LATE = "time", "tools", "own", "foreign", "late"
NO_ARGUMENTS, NO_RESULTS = "arguments", "results"

_HINTS = "repeated_effect: what a tool's server says of it is not recorded; only tools declared `once` are judged."


def notes(missing: dict[str, int], policies: Sequence[Policy]) -> Iterator[str]:
    """A sentence for each mode, with the number of runs (or calls) that it is true of."""
    if count := missing.get(NO_TIME):
        yield f"poll_no_progress: {count:,} runs tell no times: `min_interval` and `patience` are not judged."
        if any(policy.counting == "calls" and policy.window for policy in policies):
            yield f"window: {count:,} runs tell no times: all calls of a turn are taken to be within one window."
    if count := missing.get(NO_TOOLS):
        yield f"unknown_tool_repeat: {count:,} runs do not tell which tools exist: not judged there."
    if count := missing.get(OWN):
        yield f"similar_query: {count:,} turns hold fingerprints and no queries: not judged there."
        yield f"error_repeat: in {count:,} turns only errors whose whole text is equal count as the same error."
        yield "volatile_repeat, poll_no_progress, generic_repeat: judged by the sameness that the guard recorded."
    if count := missing.get(FOREIGN):
        yield f"unknown_tool_repeat: {count:,} traces of other instrumentations do not tell which tools exist."
    if missing.get(OWN) or missing.get(FOREIGN) or missing.get(NO_TOOLS):
        yield _HINTS
    if count := missing.get(NO_ARGUMENTS):
        yield f"{count:,} calls cannot be judged: their spans have no arguments. They count as calls, and make no trip."
    if count := missing.get(NO_RESULTS):
        yield f"every mode but the counting ones: {count:,} spans have no result; each is taken as a new one."
    if count := missing.get(LATE):
        yield f"{count:,} spans came after the rest of their turn was judged: their order is not the recorded one."
