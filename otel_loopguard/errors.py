"""The exceptions of this package, and the address of the docs, which its messages name."""

from __future__ import annotations

from typing import Final

DOCS: Final = "https://github.com/otel-loopguard/otel-loopguard/blob/main/docs"


class LoopGuardError(Exception):
    """The base class of all exceptions of this package."""


class RunStopped(LoopGuardError):  # noqa: N818 - the base of two errors, named for what has happened
    """The agent's run was ended by the guard: a ``ToolLoopError`` or a ``RunBudgetError``.

    It holds names and numbers only, never an argument or a result: frameworks log exceptions. ``repeats`` is the count
    of the mode, and ``limit`` the count at which the mode acts.
    """

    def __init__(
        self, message: str, *, tool_name: str, mode: str, repeats: int, limit: int, turn_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.tool_name = tool_name
        self.mode = mode
        self.repeats = repeats
        self.limit = limit
        self.turn_id = turn_id


class ToolLoopError(RunStopped):
    """The agent's run was ended, because it kept calling tools, or writing the same words, without progress."""


class RunBudgetError(RunStopped):
    """The agent's run was ended, because it went on when a budget of the policy was spent.

    ``limit`` is the budget and ``repeats`` what was spent; of an account ``cost`` both are in millionths.
    """

    account = ""
    """The scope and the account, such as ``tree.tokens``."""


class PolicyError(LoopGuardError, ValueError):
    """A policy has mistakes. ``problems`` has a text for each, with its place, value and remedy."""

    def __init__(self, problems: list[str], *, source: str = "policy") -> None:
        self.problems = problems
        self.source = source
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  - {problem}" for problem in problems))


class NotStoredError(LoopGuardError):
    """A message to stop a turn is not in the shared store: only this process stops, and keeps trying to tell others."""


class StoreError(LoopGuardError, ValueError):
    """The shared store cannot be set up: its URL has a mistake, or a package or a key is missing.

    The text names the remedy, and never a user, a password or a key.
    """
