"""The rows of a framework's table: where it runs tools, where it runs agents, and how to speak its language."""

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
    """How a framework's function is called, and so how it has to be wrapped."""

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
    """A tool call as the framework's arguments tell it."""

    call: ToolCall
    conversation_id: str | None = None
    agent_name: str | None = None
    run_id: str | None = None
    """The framework's own id of the run that makes this call."""
    native_span: NativeSpan = NativeSpan.NONE
    """The place of the framework's own span of this call."""
    note: Any = None
    """Whatever the framework's functions hand on to each other."""


def plain_outcome(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of the table's functions
    """The result is the outcome."""
    return Outcome(result=result)


def no_place(reading: Reading, result: Any, text: str) -> Any:  # noqa: ARG001
    """There is nowhere to put a sentence for the model."""
    return None


def never(error: BaseException) -> bool:  # noqa: ARG001
    """No exception is a signal between the framework's own parts."""
    return False


@dataclass(frozen=True)
class ToolAdapter:
    """How one framework's executor speaks. All functions are small and may fail: who calls them holds the shield."""

    read: Callable[[Any, Arguments, Keywords], Reading | None]
    """The call, from instance, arguments and keywords; None where this is no tool call after all."""
    answer: Callable[[Reading, Any, bool], Any]
    """A result in the framework's own type, made from a text (or an earlier content) and whether it is an error."""
    outcome: Callable[[Reading, Any], Outcome] = plain_outcome
    """What came back, without ids and time stamps that the framework adds."""
    annotate: Callable[[Reading, Any, str], Any] = no_place
    """The result with a sentence added for the model, or None where the text would break something."""
    signals: Callable[[BaseException], bool] = never
    """Whether an exception is no failure: an interrupt, a hand-over."""
    by_run: bool = False
    """Whether calls tell the id of their run. A call that is made within another one, and by another run, is then
    no layer of it."""
    error: Callable[[], type[ToolLoopError]] | None = None
    """The class of ``ToolLoopError`` that the framework lets out to its caller. Without it the error is carried past
    the framework as a ``BaseException``, up to the run's boundary."""


@dataclass(frozen=True)
class ToolTarget:
    """A row: here the framework runs one tool call."""

    module: str
    path: str
    adapter: ToolAdapter
    style: CallStyle = CallStyle.SYNC
    """``SYNC`` or ``ASYNC``."""
    each: Callable[[Keywords], list[Keywords]] | None = None
    """For a function that handles several calls at once: the keywords for one call each. Its results are lists."""
    turned_down: Callable[[Any], bool] | None = None
    """For a check before the place where tools run: whether its result turns the call down. Then that is what came of
    the call, and what the model reads."""
    fatal: bool = False
    """Whether a call is only seen here when it fails, which ends the run: then it is read after the failure."""
    optional: bool = False
    """Whether some supported versions of the framework have no such place."""


@dataclass(frozen=True)
class RunTarget:
    """A row: here the framework runs an agent. What is called inside belongs to one turn."""

    module: str
    path: str
    read: Callable[[Any, Arguments, Keywords], RunInfo | None]
    """The run, or None where this is none after all."""
    style: CallStyle = CallStyle.SYNC
    unfinished: Callable[[Any], bool] = lambda chunk: False  # noqa: ARG005
    """Whether this piece of the result says that the run was interrupted and may be resumed."""
    over: Callable[[Any, Callable[[], None]], None] | None = None
    """For ``BACKGROUND``: have the second called when the run of this result is over."""
    optional: bool = False
    """Whether some supported versions of the framework have no such place."""


@dataclass(frozen=True)
class CallTarget:
    """A row: here something else has to be done around a call; ``wrapper`` is as wrapt has it."""

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
