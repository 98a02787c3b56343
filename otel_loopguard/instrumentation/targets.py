"""The description of a framework: the functions that run tools and agents, and the adapter of its types."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.model import Outcome
from otel_loopguard.telemetry.call_span import NativeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.core.model import ToolCall
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.turns.runs import RunInfo

    Arguments = tuple[Any, ...]
    Keywords = Mapping[str, Any]


class CallStyle(enum.Enum):
    """The style of a framework's function, which decides its wrapper."""

    SYNC = enum.auto()
    ASYNC = enum.auto()
    """A coroutine function."""
    GENERATOR = enum.auto()
    ASYNC_GENERATOR = enum.auto()
    BACKGROUND = enum.auto()
    """It only starts a run, and returns before the run is over."""
    CONTEXT = enum.auto()
    """It returns an async context manager; the object that this yields is then read as the instance."""


class Reading(NamedTuple):
    """A tool call, read from the framework's arguments."""

    call: ToolCall
    conversation_id: str | None = None
    agent_name: str | None = None
    run_id: str | None = None
    """The framework's own id of the run that makes this call."""
    native_span: NativeSpan = NativeSpan.NONE
    """The place of the framework's own span of this call."""
    note: Any = None
    """Anything that the framework's functions pass to each other."""


def plain_outcome(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of the table's functions
    """Take the result as the outcome."""
    return Outcome(result=result)


def no_place(reading: Reading, result: Any, text: str) -> Any:  # noqa: ARG001 - the signature of the caller
    """Return None: the result has no place for text."""
    return None


def never(error: BaseException) -> bool:  # noqa: ARG001 - the signature of the caller
    """Return False: no exception is a signal between the framework's own parts."""
    return False


@dataclass(frozen=True)
class ToolAdapter:
    """Translate between one framework's executor and the guard. The functions may fail: the caller holds the shield."""

    read: Callable[[Any, Arguments, Keywords], Reading | None]
    """Reads the call from instance, arguments and keywords; None if this is no tool call after all."""
    answer: Callable[[Reading, Any, bool], Any]
    """Makes a result in the framework's own type from a text, or from an earlier content, and an error flag."""
    outcome: Callable[[Reading, Any], Outcome] = plain_outcome
    """Reads a result, without ids and time stamps that the framework adds."""
    annotate: Callable[[Reading, Any, str], Any] = no_place
    """Adds a sentence for the model to a result; None if the text would break it."""
    signals: Callable[[BaseException], bool] = never
    """True for an exception that is no failure: an interrupt, a hand-over."""
    by_run: bool = False
    """True if calls carry the id of their run. A call inside another one, but of another run, is then no layer of
    it."""
    error: Callable[[], type[ToolLoopError]] | None = None
    """Returns the class of ``ToolLoopError`` that the framework lets out to its caller. Without it a ``BaseException``
    carries the error past the framework, up to the wrapper of the run."""


@dataclass(frozen=True)
class ToolTarget:
    """A function in which the framework runs one tool call."""

    module: str
    path: str
    adapter: ToolAdapter
    style: CallStyle = CallStyle.SYNC
    """``SYNC`` or ``ASYNC``."""
    each: Callable[[Keywords], list[Keywords]] | None = None
    """For a function that handles several calls at once: splits its keywords, one call each. Its results are lists."""
    turned_down: Callable[[Any], bool] | None = None
    """For a check before the place where tools run: True if its result turns the call down. The model then reads that
    result, and it is the call's outcome."""
    fatal: bool = False
    """True if a call is seen here only when it fails, which ends the run. It is read after the failure."""
    optional: bool = False
    """True if some supported versions of the framework have no such function."""


@dataclass(frozen=True)
class RunTarget:
    """A function in which the framework runs an agent. The calls inside belong to one turn."""

    module: str
    path: str
    read: Callable[[Any, Arguments, Keywords], RunInfo | None]
    """Reads the run; None if this is no run after all."""
    style: CallStyle = CallStyle.SYNC
    unfinished: Callable[[Any], bool] = lambda chunk: False  # noqa: ARG005 - the signature of the caller
    """True if this piece of the result shows that the run was interrupted and may be resumed."""
    over: Callable[[Any, Callable[[], None]], None] | None = None
    """For ``BACKGROUND``: arranges that the callback is called when the run of this result is over."""
    optional: bool = False
    """True if some supported versions of the framework have no such function."""


@dataclass(frozen=True)
class CallTarget:
    """A function with a wrapper of the framework's own file; ``wrapper`` has wrapt's signature."""

    module: str
    path: str
    wrapper: Callable[[Callable[..., Any], Any, Arguments, Keywords], Any]


Target = ToolTarget | RunTarget | CallTarget


class OwnLimit(NamedTuple):
    """A limit of tool calls that a framework offers itself. The doctor reports it where a program uses it."""

    name: str
    module: str
    path: str
    """The function that runs if the limit is in use."""
    keyword: str | None = None
    """The keyword that sets the limit, if the function has others."""


@dataclass(frozen=True)
class Framework:
    """The facts of one framework. Each framework's module or package exports one, as ``FRAMEWORK``.

    Patching, the doctor, the demo, the matrix of tested versions and the check of docs/frameworks.md read them here.
    """

    name: str
    targets: tuple[Target, ...]
    native_scopes: tuple[str, ...] = ()
    """The instrumentation scopes of its own tool spans. They are not counted if one of the tool targets is patched."""
    title: str = ""
    """Its name in the documentation."""
    modules: tuple[str, ...] = ()
    """The modules that a program with an agent of this framework imports."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The requirements of each environment that it is tested in, ``oldest`` first, ``newest`` last. Empty for a library
    that is patched, but has no agents."""
    limits: tuple[OwnLimit, ...] = ()
    loggers: tuple[str, ...] = ()
    """Loggers that report each failed tool call."""

    @property
    def command_name(self) -> str:
        """Its name on a command line."""
        return self.name.replace("_", "-")

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages to install for its newest version."""
        return tuple(re.split("[<>=]", requirement)[0] for requirement in self.versions["newest"])

    @property
    def supported_from(self) -> str:
        """The oldest supported versions, as docs/frameworks.md names them."""
        pinned = (requirement.split("==") for requirement in self.versions["oldest"] if "==" in requirement)
        return ", ".join(f"{package} {version}" for package, version in pinned)
