"""The steps of a run, which are drawn before it is played: one that fails can be played again with fewer of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Step(NamedTuple):
    """One step."""

    number: int
    """Its place as drawn. The chance in it comes from the seed and this number, so it stays if others are left out."""
    what: str
    who: int = 0
    """The number of a process, or of an agent."""
    how: str = ""
    """Of a call: "thread", "loop" (sync code on an event loop), "task" or "observed". Of a fault: its name."""
    on: str = ""
    """The file."""
    count: int = 0
    beside: tuple[Step, ...] = ()
    """Steps at the same time."""

    def __repr__(self) -> str:
        """Return the step as it is written in ``found.py``."""
        names = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True) if value]
        return f"Step({', '.join(names)})"


class Run(NamedTuple):
    """The steps of one setting."""

    seed: int
    setting: str
    steps: tuple[Step, ...]


class Setting(NamedTuple):
    """What may happen in a run."""

    world: Any
    faults: tuple[str, ...] = ()
    share: float = 0.0
    """The share of steps that are faults."""
    hows: tuple[str, ...] = ("thread", "task", "observed")
    """The kinds of code that make calls."""
    most: int = 14
    """The equal calls after which an agent that does nothing else was ended."""


class BrokenPromiseError(AssertionError):
    """A promise is broken."""


def smallest(run: Run, breaks: Callable[[Run], bool]) -> Run:
    """Leave out steps as long as the run still breaks a promise."""
    steps = list(run.steps)
    size = len(steps)
    while size:
        place = 0
        while place < len(steps):
            fewer = run._replace(steps=(*steps[:place], *steps[place + size :]))
            if breaks(fewer):
                steps = list(fewer.steps)
            else:
                place += size
        size //= 2
    for place, step in enumerate(steps):
        fewer = run._replace(steps=(*steps[:place], step._replace(beside=()), *steps[place + 1 :]))
        if step.beside and breaks(fewer):
            steps = list(fewer.steps)
    return run._replace(steps=tuple(steps))
