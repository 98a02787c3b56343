"""The parts of the rule, each with the way to take it out: numbers of the policy, and special cases in the code."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, NamedTuple

from otel_loopguard import Policy, Rule


class Edit(NamedTuple):
    """A piece of a function's source, which must be there once, and its replacement."""

    function: Any
    old: str
    new: str

    @property
    def source(self) -> str:
        """The function's source."""
        return textwrap.dedent(inspect.getsource(self.function))

    def apply(self) -> None:
        """Change the function itself, so that all modules that imported it get the change."""
        if self.source.count(self.old) != 1:
            raise ValueError(f"{self.function.__qualname__}: {self.source.count(self.old)} times there: {self.old}")
        namespace = dict(self.function.__globals__)
        exec("from __future__ import annotations\n" + self.source.replace(self.old, self.new), namespace)
        self.function.__code__ = namespace[self.function.__name__].__code__


class Part(NamedTuple):
    """One number or special case, and the way to take it out: a policy, or edits of the functions that have it."""

    name: str
    carries: str
    """The sentence of the rule that goes with it."""
    policy: Policy = Policy()
    edits: tuple[Edit, ...] = ()


def setting(name: str, carries: str, mode: str, **neutral: Any) -> Part:
    """Take out settings of a mode by their neutral values."""
    return Part(name, carries, Policy(modes={mode: Rule(**neutral)}))


def mode(name: str) -> Part:
    """Take out a mode."""
    return setting(f"`{name}`", "the whole mode", name, nudge=0, block=0)


def code(name: str, carries: str, function: Any, old: str, new: str) -> Part:
    """Take out a special case of one function."""
    return Part(name, carries, edits=(Edit(function, old, new),))


PARTS: list[Part] = [
    mode("no_novelty"),
    setting("`generic_repeat.block_after_reads`", "5 after news from reading", "generic_repeat", block_after_reads=3),
]
