"""The probe: it runs inside the examined program, counts calls and their outcomes, and writes them to a file.

The entry point ``opentelemetry_post_instrument`` starts it, after all instrumentations. It changes nothing that the
program can see, and writes no argument or result.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.doctor import unread_requests
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.functions import decorator
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.targets import CallTarget, FrameworkLimit
from otel_loopguard.telemetry.call_span import CallSpan
from otel_loopguard.telemetry.exit_summary import is_helper
from otel_loopguard.telemetry.loop_event import SWALLOWED, Events
from otel_loopguard.telemetry.meters import Meters
from otel_loopguard.turns.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.vocabulary import Trip, Usage
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.targets import Original

FOLDER = "_OTEL_LOOPGUARD_DOCTOR"
"""The environment variable with the folder for the reports. Without it the probe does nothing."""

_OFTEN_SECONDS = 1.0
_NEVER = float("-inf")
_LAST = -100


class Probe:
    """Counts what happens in this process, and writes the report."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.label = "app"
        """``app`` for calls of the program; the self-test sets the name of its loop."""
        self.calls: Counter[tuple[str, str, bool, str]] = Counter()
        """Guarded calls by label, source of the turn, whether it is enforced, and outcome."""
        self.counted = 0
        """All calls that the guard counted: those in ``calls``, and those known only from spans of others."""
        self.unseen = 0
        """Calls whose span is not recorded."""
        self.by_hand = 0
        """Calls of ``@otel_loopguard.tool`` and ``otel_loopguard.call``."""
        self.ended: Counter[str] = Counter()
        """By turn, how often the guard raised ``RunStopped`` in it."""
        self.errors: Counter[str] = Counter()
        """Faults of the guard, by the place in its code."""
        self.guards: set[str] = set()
        """The frameworks' own limits on loops that are in use."""
        self.text_protocols: set[str] = set()
        """The agents in use that ask for tool calls in plain text."""
        self.unread_requests: Counter[str] = Counter()
        """Requests to models that no patched client has sent, by the end of their path."""
        self.requests: Counter[str] = Counter()
        """Requests to models: ``all``, those ``without_tokens``, and those with tokens, but ``without_price``."""
        self.is_helper = is_helper()
        """True for a process of multiprocessing that runs no code of the program. It writes no report."""
        self._facts: dict[str, Any] = {}
        self._gathered = _NEVER
        self.tested: dict[str, str] = {}
        """``refused`` or ``ran``, by the name of the loop of the self-test; empty in a user's program."""

    def write(self, *, ended: bool) -> None:
        """Write the report of this process, as a whole: a reader never sees half of it.

        The counts are those of now. The facts take time to gather: unless it has ``ended``, they may be a second old.
        """
        if self.is_helper or not self._folder.is_dir():  # the doctor has ended
            return
        if ended or time.monotonic() - self._gathered > _OFTEN_SECONDS:
            from otel_loopguard.cli.doctor import facts  # noqa: PLC0415 - it imports much that may not be needed

            self._facts, self._gathered = facts.gather(), time.monotonic()
        found = {**self._facts, **self.seen(), "ended": ended, "pid": os.getpid()}
        with suppress(OSError):  # the doctor has just ended, or the disk is full: no concern of the program
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(found, file)
            Path(name).replace(self._folder / f"{os.getpid()}.json")

    def after_fork(self) -> None:
        """Start from zero in a forked process. One of multiprocessing ends by finalizers instead of ``atexit``."""
        self.is_helper = False
        self.calls.clear()
        self.errors.clear()
        self.ended.clear()
        self.unread_requests.clear()
        self.requests.clear()
        self.counted = self.unseen = self.by_hand = 0
        self._gathered = _NEVER
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(
                self, lambda probe: util.Finalize(None, probe.write, kwargs={"ended": True}, exitpriority=_LAST)
            )

    def seen(self) -> dict[str, Any]:
        """Return the counts, as types that JSON has."""
        keys = ("label", "source", "enforced", "outcome")
        calls = [{**dict(zip(keys, key, strict=True)), "count": count} for key, count in sorted(self.calls.items())]
        return {
            "calls": calls,
            "from_spans": max(0, self.counted - sum(self.calls.values())),
            "unseen": self.unseen,
            "by_hand": self.by_hand,
            "caught": sum(count >= SWALLOWED for count in self.ended.values()),
            "ended_by_guard": _is_ended_by_guard(),
            "errors": dict(self.errors),
            "guards": sorted(self.guards),
            "text_protocols": sorted(self.text_protocols),
            "unread_requests": dict(self.unread_requests),
            "requests": dict(self.requests),
            "tested": self.tested,
        }


def start() -> None:
    """Start the probe, if the doctor has started this program. It is the target of the entry point."""
    global current  # noqa: PLW0603 - one probe a process
    folder = os.environ.get(FOLDER)
    if not folder or not Path(folder).is_dir():
        return
    current = Probe(Path(folder))
    _listen(current)
    current.write(ended=False)
    # At exit it runs before what was registered earlier, such as the shutdown of the providers.
    atexit.register(current.write, ended=True)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


current: Probe | None = None


def _is_ended_by_guard() -> bool:
    """Return True if nothing caught the last exception, and it is a ``RunStopped`` or was caused by one."""
    waiting, seen = [getattr(sys, "last_value", None)], set()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        if isinstance(error, (RunStopped, LoopAbort)):
            return True
        seen.add(id(error))
        waiting += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return False


def _forked() -> None:
    if current is not None:
        current.after_fork()


# --- the places where it listens -----------------------------------------------------------------------------------

_LIMITS = tuple(limit for framework in FRAMEWORKS for limit in framework.limits)


class _TextProtocol(NamedTuple):
    """A kind of agent that asks for tool calls in plain text, so that requests to its model do not show its calls."""

    name: str
    module: str
    path: str
    """A function that only such an agent calls."""


_TEXT_PROTOCOLS = (
    _TextProtocol("CodeAct of DSPy", "dspy.predict.code_act", "CodeAct.__init__"),
    _TextProtocol("RLM of DSPy", "dspy.predict.rlm", "RLM.__init__"),
    _TextProtocol(
        "CodeActAgent of LlamaIndex", "llama_index.core.agent.workflow.codeact_agent", "CodeActAgent.take_step"
    ),
)


def _listen(probe: Probe) -> None:
    """Patch the guard to count calls, turns and faults, and frameworks to note limits and text protocols in use."""
    _before(CallSpan, "finish", lambda args: _count_call(probe, args[0], args[1]))
    _before(decorator, "_open", lambda _args: _count_by_hand(probe))
    _before(Events, "log", lambda args: _count_end(probe, args[1], args[4]))
    # Written at the end of each turn, too: workers, and programs that are killed, end without ``atexit``.
    _before(Runs, "close", lambda _args: probe.write(ended=False))
    _before(Meters, "tool_call", lambda _args: _count_any(probe))
    _before(Meters, "model_request", lambda args: _count_request(probe, args[1], args[2]))
    _before(Meters, "error", lambda args: probe.errors.update([args[1]]))
    limits = (partial(_note, probe.guards, one.name, one.keyword) for one in _LIMITS)
    protocols = (partial(_note, probe.text_protocols, one.name, None) for one in _TEXT_PROTOCOLS)
    used: tuple[FrameworkLimit | _TextProtocol, ...] = (*_LIMITS, *_TEXT_PROTOCOLS)
    noted = zip(used, (*limits, *protocols), strict=True)
    Patches(CallTarget(one.module, one.path, wrapper) for one, wrapper in noted).install()
    unread_requests.listen(probe.unread_requests)


def _before(owner: Any, name: str, listener: Callable[[Any], None]) -> None:
    inner = getattr(owner, name)

    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        listener(args)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def _count_call(probe: Probe, call_span: CallSpan, ending: str) -> None:
    turn = call_span.scope.turn
    probe.calls[probe.label, turn.source, turn.enforced, ending] += 1
    probe.unseen += not call_span.otel_span.is_recording()


def _count_by_hand(probe: Probe) -> None:
    probe.by_hand += 1


def _count_end(probe: Probe, trip: Trip, turn: Turn) -> None:
    if trip.action is Action.ABORT:
        probe.ended[turn.id] += 1


def _count_any(probe: Probe) -> None:
    probe.counted += 1


def _count_request(probe: Probe, usage: Usage, cost: float | None) -> None:
    is_known = usage.input_tokens is not None and usage.output_tokens is not None
    lacks = "without_tokens" if not is_known else "without_price" if cost is None else ""
    probe.requests.update(filter(None, ["all", lacks]))


def _note(names: set[str], name: str, keyword: str | None, original: Original) -> Callable[..., Any]:
    """Return a wrapper that adds the name to ``names`` at each call, or only at those that have this keyword."""

    def note(*given: Any, **kwargs: Any) -> Any:
        if keyword is None or kwargs.get(keyword) is not None:
            names.add(name)
        wrapped, _, args = original.bind(given)
        return wrapped(*args, **kwargs)

    return note
