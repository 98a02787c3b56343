"""Scripted models: a script is a function of the request to what the model answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.models.conversation import Asked, Call, RejectedError, Reply

Script = Callable[[Asked], Reply]
Step = Call | tuple[Call, ...] | str
"""One message of the model: a call, several calls at once, or a text."""


def call(name: str, /, **arguments: Any) -> Call:
    """A call for a script: ``call("read_file", path="a.py")``."""
    return Call(name, arguments)


def written(step: Step) -> Reply:
    """The reply that a step of a script is."""
    if isinstance(step, str):
        return Reply(step)
    return Reply("", (step,) if isinstance(step, Call) else step)


class Looping:
    """Makes the same calls again and again, in turn if there are several steps, and answers after many rounds.

    A model that may not call tools answers; a stubborn one calls all the same.
    """

    def __init__(self, *steps: Step, answer: str = "I looked.", rounds: int = 40, stubborn: bool = False) -> None:
        self._steps = [written(step) for step in steps]
        self._answer = Reply(answer)
        self._rounds = rounds
        self._stubborn = stubborn

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        step = self._steps[(asked.number - 1) % len(self._steps)]
        if asked.choice not in ("none", "auto", "required") and not self._stubborn:  # the one tool that is demanded
            return Reply("", (Call(asked.choice, {"answer": self._answer.text}),))
        allowed = asked.may_call or self._stubborn or not step.calls
        return step if allowed and asked.number <= self._rounds else self._answer


class Working:
    """Makes its steps one after the other, then answers."""

    def __init__(self, *steps: Step, answer: str = "Done.") -> None:
        self._steps = [written(step) for step in steps]
        self._answer = Reply(answer)

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        steps = self._steps if asked.may_call else [step for step in self._steps if not step.calls]
        return steps[asked.number - 1] if asked.number <= len(steps) else self._answer


class Obedient:
    """Follows its script until the guard speaks to it, then answers."""

    def __init__(self, script: Script, answer: str = "I stop here.") -> None:
        self._script = script
        self._answer = Reply(answer)

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        return self._answer if asked.reads("[loopguard]") else self._script(asked)


class Failing:
    """Fails each request once before it follows its script, as an overloaded service does."""

    def __init__(self, script: Script, *, status: int = 503) -> None:
        self._script = script
        self._status = status
        self._failed: set[tuple[str, int]] = set()

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        request = (asked.key, asked.number)
        if request not in self._failed:
            self._failed.add(request)
            raise RejectedError("The server is overloaded.", status=self._status)
        return self._script(asked)


class Slow:
    """Follows its script, and thinks so many seconds before each answer: its clock is moved by hand."""

    def __init__(self, script: Script, *, seconds: float = 40.0) -> None:
        self.script = script
        self.seconds = seconds
        self.now = 1_000.0

    def clock(self) -> float:
        """Return the time in seconds, for the guard."""
        return self.now

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        self.now += self.seconds
        return self.script(asked)
