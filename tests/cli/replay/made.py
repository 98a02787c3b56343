"""Runs made up for tests: of few tools, arguments and results, so that they repeat themselves."""

from __future__ import annotations

import random
from typing import Any

TOOLS = ("read_file", "search", "write_file", "run_tests", "get_status", "think", "plan_b", "query_db", "made_up")
RESULTS = ("ok", "nothing", "Error: no such file", "Error 503: service unavailable", "queued", "took 3.2s", "12 of 40")


def call(tool: str, args: Any, result: str | None, step: int | None = None, **more: Any) -> dict[str, Any]:
    """One recorded call."""
    found = {"tool": tool, "args": args, "result": result, "is_error": bool(result) and result.startswith("Error")}
    return {**found, **({} if step is None else {"step": step}), **more}


def run(run_id: str, *turns: list[dict[str, Any]], success: bool | None = None, tools: Any = None) -> dict[str, Any]:
    """One recorded run."""
    return {"run_id": run_id, "success": success, "tools": tools or [], "turns": [{"calls": calls} for calls in turns]}


def stuck(run_id: str = "stuck", times: int = 4, **more: Any) -> dict[str, Any]:
    """A run that repeats one call with one result."""
    return run(run_id, [call("read_file", {"path": "a"}, "same", number) for number in range(times)], **more)


def drawn(seed: int, length: int = 12) -> dict[str, Any]:
    """A run drawn from the seed: mostly plain, now and then with repeats, errors and parallel steps."""
    rng = random.Random(seed)
    variety = rng.choice((2, 6, 1000))
    turns = []
    for _ in range(rng.randint(1, 3)):
        step, calls = 0, []
        for _ in range(rng.randint(1, length)):
            step += rng.random() < 0.8
            moving = (
                f"took {rng.randrange(9)}.5s",
                f"{rng.randrange(variety)} of 40 done",
                f"id {rng.getrandbits(48):x}",
            )
            result = rng.choice((*RESULTS, *moving)) if rng.random() < 0.6 else f"text {rng.randrange(variety)}"
            calls.append(call(rng.choice(TOOLS[:8]), {"q": rng.randrange(variety)}, result, step))
        turns.append(calls)
    return run(f"drawn {seed}", *turns, tools=[*TOOLS[:8]] if rng.random() < 0.5 else [])
