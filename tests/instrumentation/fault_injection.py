"""Break a function of the package: find those that a scenario calls, and make one of them raise."""

from __future__ import annotations

import inspect
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from otel_loopguard.store import background
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FunctionType

PACKAGE = "otel_loopguard"
APART = tuple(f"{PACKAGE}.{room}" for room in ("testing", "cli", "report"))

DRIVERS_OF_OURS = (
    "instrumentation.agent_run:AgentRun.running",
    "instrumentation.agent_run:AgentRun.inspect",
    "instrumentation.agent_run:async_generator_of_run",
    "instrumentation.agent_run:run_async",
    "instrumentation.agent_run:run_background",
    "instrumentation.agent_run:run_plain",
    "instrumentation.call:GuardedCall.aresult",
    "instrumentation.call:GuardedCall.result",
    "instrumentation.call:drive_async",
    "instrumentation.frameworks.threads:_run_in",
    "instrumentation.functions.decorator:_call_with",
    "instrumentation.functions.decorator:_open",
    "instrumentation.functions.decorator:call",
    "instrumentation.functions.generators:_GuardedStream.aended",
    "instrumentation.functions.generators:_GuardedStream.ended",
    "instrumentation.functions.generators:_GuardedStream.yielded",
    "instrumentation.functions.generators:_GuardedStream.resumed",
    "instrumentation.functions.generators:async_driver",
    "instrumentation.functions.generators:drive_async_generator",
    "instrumentation.functions.generators:drive_generator",
    "instrumentation.frameworks.langchain.parallel_calls:_of_message",
    "instrumentation.frameworks.langchain.runs:_note_end",
    "instrumentation.model_messages:one_message",
    "instrumentation.lasting_calls:_Read.resume",
    "instrumentation.lasting_calls:_Read.suspend",
    "instrumentation.lasting_calls:_ReadText.add",
    "instrumentation.lasting_calls:_async_items",
    "instrumentation.lasting_calls:_items",
    "instrumentation.lasting_calls:_lasting",
    "instrumentation.models.streams:_anext",
    "instrumentation.models.streams:_next",
    "instrumentation.targets:Original.bind",
    "instrumentation.wrappers:_open_run",
    "instrumentation.functions.drivers:drive_function",
    "instrumentation.functions.drivers:driver_of",
    "instrumentation.turn_api:say",
    "instrumentation.turn_api:turn.say",
)
"""They call the program's code and hold the shields, so a fault in them cannot be caught."""
EXCUSED = {
    **dict.fromkeys(DRIVERS_OF_OURS, "a driver"),
    ":__getattr__": "the test's own way into the package",
    "shield:Shield.__call__": "the shield itself",
    "shield:Shield.take": "as above",
    "instrumentation.wrappers:open_call": "holds the shield of a framework's call; its first line is outside of it",
    "instrumentation.model_request:_open": "holds the shield of a request",
    "instrumentation.model_request:_prepared": "as above",
    "instrumentation.model_request:_heard": "as above",
    "instrumentation.model_request:_passed_on": "as above",
    "instrumentation.model_request:_below": "sets one context variable",
    "cli.watch.grpc_receiver:GrpcReceiver._export": "as above",
    "gateway.gateway:judge": "as above",
    "gateway.gateway:learn": "as above",
    "gateway.gateway:alearn": "as above",
    "telemetry.processor:LoopGuardSpanProcessor.on_start": "holds the shield of a span, also of one of the program",
    "telemetry.processor:LoopGuardSpanProcessor.on_end": "as above",
    "interrupts:is_interrupt": "holds a shield",
    "interrupts:pass_interrupt": "as above",
    "instrumentation.call:GuardedCall.cut_short": "holds the shield",
    "instrumentation.functions.generators:_GuardedStream.cut_short": "as above",
    "turns.scope:bind": "sets one context variable; the test's own clean-up",
    "turns.scope:unbind": "as above",
    "turns.gc_safety:_Collector.runs_here": "compares two objects",
}
NOT_COUNTED = {
    "engine.values.canonical:_may_fold": "the walker takes over, and the value still has a fingerprint",
    "engine.values.canonical:_may_need_normalising": "as above",
    "engine.values.fast_json:dumps": "as above",
    "engine.values.fast_json:flat_text": "as above",
    "engine.values.fast_json:dumps_known": "as above",
    "engine.tools.kinds:kind_of_call": "as above: the kind by the tool's name is used",
    "engine.history.history:History.add_pause": "is called after a pause only, which a busy machine may make",
    "telemetry.providers:Providers.outlets": "finds the counter",
    "telemetry.meters:Meters.error": "is the counter",
    "telemetry.measurements:Records.__call__": "passes the count to the SDK",
}


def boom(*_: Any, **__: Any) -> NoReturn:
    """Raise with a value in the message. Only builtins are used, because only the code object is copied."""
    raise ArithmeticError("SECRET")


def too_deep(*_: Any, **__: Any) -> NoReturn:
    """Raise as a function does that nests too deep."""
    raise RecursionError("SECRET")


def out_of_memory(*_: Any, **__: Any) -> NoReturn:
    """Raise as a function does for which there is no memory."""
    raise MemoryError("SECRET")


def ours(apart: tuple[str, ...] = APART) -> dict[str, FunctionType]:
    """Return every function of the package, by module and name."""
    found = {}
    for module in [m for name, m in sys.modules.items() if name.startswith(PACKAGE) and not name.startswith(apart)]:
        short = module.__name__[len(PACKAGE) + 1 :]
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value) and not value.__code__.co_freevars:
                found[f"{short}:{name}"] = value
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                for member, function in vars(value).items():
                    if (
                        inspect.isfunction(function)
                        and not function.__code__.co_freevars
                        and (member == "__call__" or not member.startswith("__"))
                    ):
                        found[f"{short}:{name}.{member}"] = function
    return found


def called(scenario: Callable[[], Any]) -> set[str]:
    """Return the functions of the package that a scenario calls."""
    codes: set[Any] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    with guarded():
        background.wait(_profile(note))
        threading.setprofile(note)  # of the threads that the scenario starts
        sys.setprofile(note)
        try:
            scenario()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            background.wait(_profile(None))
    return {name for name, function in ours().items() if function.__code__ in codes}


async def _profile(note: Callable[[Any, str, Any], None] | None) -> None:
    sys.setprofile(note)


@contextmanager
def broken(function: FunctionType, fault: Callable[..., NoReturn] = boom) -> Iterator[None]:
    """Make the function raise, also for code that holds a reference to it."""
    code = function.__code__
    function.__code__ = fault.__code__
    try:
        yield
    finally:
        function.__code__ = code
