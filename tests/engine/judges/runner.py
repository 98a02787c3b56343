"""Run traces in a turn and record their refusals and nudges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.engine.judges.corpus import REFUSALS, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.judges.corpus import Judged
    from tests.engine.judges.traces import Trace


@dataclass
class Course:
    """The course of a trace: (step, mode) of every refusal and nudge."""

    refused: list[tuple[int, str]] = field(default_factory=list)
    nudged: list[tuple[int, str]] = field(default_factory=list)
    aborted: bool = False


def run(trace: Trace, new_turn: Callable[[Trace, Callable[[], float]], Judged]) -> Course:
    """Make every call of the trace, without regard to refusals and nudges."""
    clock, course = Clock(), Course()
    turn = new_turn(trace, clock)
    for index, step in enumerate(trace.steps):
        clock.now += step.passed
        told = turn.begin(step.call)
        if told and told[1] in REFUSALS:
            course.refused.append((index, told[0]))
            course.aborted = course.aborted or told[1] == "abort"
            continue
        told = turn.end(step.call, step.outcome)
        if told:
            course.nudged.append((index, told[0]))
    return course
