"""The description of a framework: the functions that run tools and agents, and the adapter of its types."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.telemetry.call_span import NativeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.engine.vocabulary import ToolCall
    from otel_loopguard.errors import RunStopped
    from otel_loopguard.turns.runs import RunInfo

    Arguments = tuple[Any, ...]
    Keywords = Mapping[str, Any]


MARK: Final = "loopguard.mark"
"""The key of the policy's mark in a framework's message."""


IN_PLACE: Final = object()
"""Returned by ``ToolAdapter.annotate`` if the sentence was added to a message elsewhere, and the result stays."""


class CallStyle(enum.Enum):
    """The calling convention of a framework's function. Each style has its own wrapper."""

    SYNC = enum.auto()
    """A plain function."""
    ASYNC = enum.auto()
    """A coroutine function."""
    GENERATOR = enum.auto()
    ASYNC_GENERATOR = enum.auto()
    BACKGROUND = enum.auto()
    """A plain function that starts a run and returns before the run is over."""
    CONTEXT = enum.auto()
    """A plain function that returns an async context manager. ``read`` gets the yielded object as the instance."""


class Reading(NamedTuple):
    """A tool call as the framework's arguments describe it."""

    call: ToolCall
    conversation_id: str | None = None
    agent_name: str | None = None
    run_id: str | None = None
    """The framework's own id of the run that makes this call."""
    session: object = None
    """The connection that this call is made through. If nothing else tells the turn, those through it share one."""
    native_span: NativeSpan = NativeSpan.NONE
    """The position of the framework's own span of this call, seen from ours."""
    note: Any = None
    """Any value that ``read`` passes to the other functions of the adapter."""
    of_mcp: bool = False
    """True if the tool is known to be one of an MCP server."""


def plain_outcome(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of ToolAdapter.outcome
    """Return an outcome with the result as it is."""
    return Outcome(result=result)


def no_place(reading: Reading, result: Any, text: str) -> Any:  # noqa: ARG001 - the signature of ToolAdapter.annotate
    """Return None: the result has no place for text."""
    return None


def no_mark(reading: Reading, answer: Any, mark: str) -> Any:  # noqa: ARG001 - the signature of ToolAdapter.mark
    """Return the answer as it is: it has no field that only programs read."""
    return answer


def never(error: BaseException) -> bool:  # noqa: ARG001 - the signature of ToolAdapter.signals
    """Return False: every exception is a failure of the tool."""
    return False


@dataclass(frozen=True)
class ToolAdapter:
    """Translate between a framework's types and the guard's. The functions may raise: the caller holds the shield."""

    read: Callable[[Any, Arguments, Keywords], Reading | None]
    """Read the call from the instance, arguments and keywords of the patched function. Return None if it is no call
    of a tool."""
    answer: Callable[[Reading, Any, bool], Any]
    """Make a result of the framework's type from content and an error flag. With the flag the content is a refusal;
    without it, an earlier result of the same call."""
    outcome: Callable[[Reading, Any], Outcome] = plain_outcome
    """Read a result of the framework as an outcome. Leave out ids and time stamps that the framework adds."""
    annotate: Callable[[Reading, Any, str], Any] = no_place
    """Return the result with a sentence for the model added. Return None if the sentence would break the result, and
    ``IN_PLACE`` if the function adds the result to the conversation itself, and the sentence was added there."""
    mark: Callable[[Reading, Any, str], Any] = no_mark
    """Return a refusal with the policy's mark under the key ``MARK``, in a field for programs that no model reads."""
    signals: Callable[[BaseException], bool] = never
    """Return True for an exception that is not a failure, such as an interrupt or a hand-over."""
    by_run: bool = False
    """True if each call has the id of its run. Then a call inside another call, but of another run, is a call of its
    own. Otherwise it is a layer of the outer call, and is not counted."""
    error: Callable[[], type[RunStopped] | None] | None = None
    """Return the subclass of ``RunStopped`` that the framework passes on to its caller. None, or a function that
    returns None, if this version catches every ``Exception``: then a ``BaseException`` carries the error to the wrapper
    of the run."""


class Items(NamedTuple):
    """The items of a generator that a method returns in its result: the tool runs while the framework reads them."""

    find: Callable[[Any], Any]
    """Return the generator, plain or async, in a result; None if there is none."""
    put: Callable[[Any, Any, Any], None]
    """Put another generator in its place, given the instance of the method and the result."""
    said: Callable[[Any], str]
    """Return what the model reads of an item."""
    result_of: Callable[[str], Any]
    """Make a result of the framework's type, for the adapter, from what the model reads of all items."""
    text_in: Callable[[Any], str]
    """Return the text of such a result."""


@dataclass(frozen=True)
class ToolTarget:
    """A function in which the framework runs one tool call."""

    module: str
    path: str
    adapter: ToolAdapter
    style: CallStyle = CallStyle.SYNC
    """``SYNC``, ``ASYNC``, or ``ASYNC_GENERATOR``: its last item is the result. It is passed on before it is judged, so
    ``annotate`` has to add to the place where the framework keeps it."""
    each: Callable[[Keywords], list[Keywords]] | None = None
    """Return the keywords for each call, if the function handles several calls at once and returns a list."""
    turned_down: Callable[[Any], bool] | None = None
    """For a check that runs before the tool, such as a guardrail: return True if the check's result rejects the call.
    That result is then the call's outcome."""
    items: Items | None = None
    """For a method that may return a generator: the call lasts until its last item."""
    around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    """Return a function around ours, for a framework that has to be told of an exception which leaves the call."""
    fatal: bool = False
    """True if the function shows a call only by raising, which ends the run. The call is read after the exception."""
    optional: bool = False
    """True if some supported versions of the framework have no such function."""


@dataclass(frozen=True)
class RunTarget:
    """A function in which the framework runs an agent. The calls inside belong to one turn."""

    module: str
    path: str
    read: Callable[[Any, Arguments, Keywords], RunInfo | None]
    """Read the run from the instance, arguments and keywords. Return None if it is no run of an agent."""
    style: CallStyle = CallStyle.SYNC
    unfinished: Callable[[Any], bool] | None = None
    """Return True if this result, or this chunk of a stream, shows that the run was interrupted and may be resumed."""
    over: Callable[[Any, Callable[[BaseException | None], None]], None] | None = None
    """For ``BACKGROUND``: register a callback for the end of the run, given the function's result.

    The callback takes the exception that ended the run, or None.
    """
    optional: bool = False
    """True if some supported versions of the framework have no such function."""


class Original(NamedTuple):
    """The function that is replaced. Python's own way binds it, because it may be another library's wrapper."""

    function: Callable[..., Any]
    get: Callable[[Any, type], Callable[..., Any]] | None
    """The function's ``__get__``. None if it is not bound: in a module, or as a static method."""

    def bind(self, given: tuple[Any, ...]) -> tuple[Callable[..., Any], Any, tuple[Any, ...]]:
        """Return the bound function, its instance (None if it is not bound) and the other arguments.

        ``given``: all arguments by position, the instance first.
        """
        function, get = self
        if get is None or not given:
            return function, None, given
        instance = given[0]
        return get(instance, type(instance)), instance, given[1:]

    @property
    def unbound(self) -> Callable[..., Any]:
        """The function that takes the instance as its first argument. To call it costs less than to bind it."""
        if self.get is None or type(self.function) is FunctionType:
            return self.function

        def unbound(*given: Any, **kwargs: Any) -> Any:
            wrapped, _, args = self.bind(given)
            return wrapped(*args, **kwargs)

        return unbound


@dataclass(frozen=True)
class CallTarget:
    """A function whose replacement is written in the file of its framework. ``wrapper`` returns the replacement."""

    module: str
    path: str
    wrapper: Callable[[Original], Callable[..., Any]]


@dataclass(frozen=True)
class OverrideTarget(CallTarget):
    """A method that subclasses override. It is replaced in each of them, also in those that the program makes later.

    ``path`` names the method of the base class, which stays as it is.
    """


Target = ToolTarget | RunTarget | CallTarget


class FrameworkLimit(NamedTuple):
    """A limit of tool calls that a framework has itself. The doctor reports it if a program uses it."""

    name: str
    module: str
    path: str
    """The function that runs only in a program that uses the limit."""
    keyword: str | None = None
    """The keyword that sets the limit. None if any call of the function sets it."""


@dataclass(frozen=True)
class Framework:
    """The facts of one framework. Each framework's module or package exports one, as ``FRAMEWORK``.

    Patching, the doctor, the matrix of tested versions and the check of docs/frameworks.md read them here.
    """

    name: str
    targets: tuple[Target, ...]
    native_scopes: tuple[str, ...] = ()
    """Instrumentation scopes of the framework's own tool spans. They are not counted if a tool target is patched."""
    title: str = ""
    """The framework's name in the documentation."""
    turns: str = "runs"
    """The turns of its calls, in words, for the documentation."""
    notes: str = ""
    """The ways to run tools and agents that are guarded, and those that are not, for the documentation."""
    answer_tools: frozenset[str] = frozenset()
    """The names of tools whose call is the agent's answer. Their calls are not guarded, and a model that is asked for
    an answer has to call one."""
    modules: tuple[str, ...] = ()
    """The modules that a program with an agent of this framework imports."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The pip requirements of each tested environment, ``oldest`` first, ``newest`` last. Empty for a library without
    agents, such as ``threads``."""
    tested: Mapping[str, str] = field(default_factory=dict)
    """The newest version of each package that was tested."""
    limits: tuple[FrameworkLimit, ...] = ()

    @property
    def hyphenated_name(self) -> str:
        """The name with hyphens, as the environments of its tests have it."""
        return self.name.replace("_", "-")

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages to install for the newest version."""
        return tuple(re.split("[<>=]", requirement)[0] for requirement in self.versions["newest"])

    @property
    def supported_from(self) -> str:
        """The oldest supported versions, as docs/frameworks.md names them."""
        pinned = (requirement.split("==") for requirement in self.versions["oldest"] if "==" in requirement)
        return ", ".join(f"{package} {version}" for package, version in pinned)
