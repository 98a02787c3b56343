"""The guarded call: it asks the turn once, whatever becomes of its span; and ``Policy.on_trip`` in async code."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

import otel_loopguard as loopguard
from otel_loopguard import Action, Policy, Trip, Turn, semconv
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.testing import guarded
from tests.instrumentation.fault_injection import broken, called, ours
from tests.telemetry.agents import stuck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from otel_loopguard import Decision, ToolCall


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ToolCall]:
    """The calls that a turn was asked about."""
    calls: list[ToolCall] = []
    begin = Turn.begin

    def noted(turn: Turn, call: ToolCall) -> Decision:
        calls.append(call)
        return begin(turn, call)

    monkeypatch.setattr(Turn, "begin", noted)
    return calls


class Raising(SpanProcessor, SpanExporter, Sampler):
    """A processor, an exporter and a sampler that raise."""

    def on_start(self, *_: Any) -> None:
        """Raise, as the other methods do."""
        raise OSError

    on_end = export = should_sample = on_start  # type: ignore[assignment]  # as above

    def get_description(self) -> str:
        """Return a name: the signature of a sampler."""
        return "raising"


class NoSpans(trace.NoOpTracerProvider):
    """A provider whose tracer makes no span."""

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        """Return something that is no tracer."""
        return object()


def provider(*processors: SpanProcessor, **settings: Any) -> TracerProvider:
    """Make a provider with these processors before ours."""
    made = TracerProvider(**settings)
    for one in processors:
        made.add_span_processor(one)
    return made


def followed() -> TracerProvider:
    """Make a provider whose processor after ours raises."""

    class Followed(TracerProvider):
        def add_span_processor(self, span_processor: SpanProcessor) -> None:
            super().add_span_processor(span_processor)
            super().add_span_processor(Raising())

    return Followed()


PROVIDERS: dict[str, Any] = {
    "SDK": provider,
    "API": trace.NoOpTracerProvider,
    "sampled out": lambda: provider(sampler=ALWAYS_OFF),
    "sampler raises": lambda: provider(sampler=Raising()),
    "processor before ours raises": lambda: provider(Raising()),
    "processor after ours raises": followed,
    "exporter raises": lambda: provider(SimpleSpanProcessor(Raising())),
    "no tracer": NoSpans,
}


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[None]:
    """A guarded program with a provider of this name."""
    before = active_runtime.instrumented
    active_runtime.put(
        Runtime(Policy(), tracer_provider=PROVIDERS[request.param](), meter_provider=metrics.NoOpMeterProvider())
    )
    yield
    active_runtime.put(before)


@pytest.mark.parametrize("program", PROVIDERS, indirect=True)
@pytest.mark.parametrize("suppressed", [False, True])
def test_a_call_is_decided_once_whatever_its_provider_does(
    program: None, suppressed: bool, asked: list[ToolCall]
) -> None:
    """Without a span, with one that nobody starts or sees, and where instrumentation is suppressed: the loop ends."""
    token = otel_context.attach(otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, suppressed))
    try:
        assert stuck() == [2]
    finally:
        otel_context.detach(token)
    assert len(asked) == 3


@pytest.mark.filterwarnings("ignore")
def test_a_fault_anywhere_in_telemetry_takes_no_protection_away(asked: list[ToolCall]) -> None:
    """Each function of telemetry that a call runs raises, one at a time: each call is decided once, the loop ends."""
    functions = sorted(name for name in called(stuck) if name.startswith("telemetry."))
    found = {}
    for name in functions:
        asked.clear()
        with guarded(), broken(ours()[name]):
            found[name] = copy_context().run(stuck), len(asked)  # the span may stay the current one
    assert len(functions) > 30
    assert found == dict.fromkeys(functions, ([2], 3))


@loopguard.tool
async def read_later(path: str) -> str:
    """An async function."""
    return f"text of {path}"


@loopguard.tool
async def failing(path: str) -> str:
    """An async function that fails."""
    raise LookupError("no such thing")


@loopguard.tool
async def read_pieces(path: str) -> AsyncIterator[str]:
    """An async generator."""
    yield path


class Human:
    """An ``on_trip`` object with an async ``__call__``."""

    def __init__(self, answer: Action | None = None) -> None:
        self.verdicts: list[Action] = []
        self.answer = answer

    async def __call__(self, trip: Trip) -> Action | None:
        """Return the answer after a pause."""
        await asyncio.sleep(0.001)
        self.verdicts.append(trip.verdict)
        return self.answer


async def call_later() -> None:
    """A call that succeeds."""
    await read_later("a")


async def call_failing() -> None:
    """A call that fails."""
    with pytest.raises(LookupError):
        await failing("a")


async def call_pieces() -> None:
    """A call whose result is streamed."""
    assert [item async for item in read_pieces("a")] == ["a"]


@pytest.mark.parametrize("call", [call_later, call_failing, call_pieces])
@pytest.mark.parametrize("function", ["method", "object"])
async def test_it_is_awaited_for_a_nudge(call: object, function: str, caplog: pytest.LogCaptureFixture) -> None:
    """An async ``on_trip`` is awaited for a nudge, without the warning about sync code."""
    human = Human(Action.OBSERVE)
    on_trip = human if function == "object" else human.__call__
    with guarded(Policy(on_trip=on_trip)) as recording, loopguard.turn():
        with caplog.at_level(logging.WARNING, "otel_loopguard"):
            await call()  # type: ignore[operator]
            await call()  # type: ignore[operator]
        assert human.verdicts == [Action.NUDGE]
        assert not caplog.records
        assert recording.outcomes in (["executed"] * 2, ["failed"] * 2)


async def test_an_object_with_an_async_call_is_awaited_for_a_refusal() -> None:
    """The awaitable answer of ``on_trip`` is awaited, even if ``on_trip`` is no coroutine function."""
    human = Human(Action.OBSERVE)
    with guarded(Policy(on_trip=human)) as recording, loopguard.turn():
        for _ in range(3):
            assert await read_later("a") == "text of a"
        assert human.verdicts == [Action.NUDGE, Action.BLOCK]
        assert recording.outcomes == ["executed"] * 3


async def test_a_plain_function_is_asked_from_async_code_as_well() -> None:
    """A plain ``on_trip`` works in async code."""
    with guarded(Policy(on_trip=lambda trip: Action.OBSERVE)) as recording, loopguard.turn():
        for _ in range(3):
            assert await read_later("a") == "text of a"
        assert recording.outcomes == ["executed"] * 3


async def test_a_call_that_is_cancelled_while_somebody_is_asked_loses_no_word() -> None:
    """If a call is cancelled in ``on_trip``, its span ends, and the user's message is added to the next result."""

    async def never(trip: Trip) -> None:
        await asyncio.sleep(3600)

    with guarded(Policy(on_trip=never)) as recording, loopguard.turn(conversation_id="c") as turn:
        await read_later("a")
        loopguard.say("look at b", conversation_id="c")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(read_later("a"), 0.05)
        assert recording.outcomes == ["executed", "executed"]
        assert "look at b" in await read_later("b")
    assert turn.undelivered == []


async def test_a_fault_of_it_lets_the_call_run_and_is_counted() -> None:
    """If an awaited ``on_trip`` raises, before or after the call, the call runs and the fault is counted."""

    async def broken(trip: Trip) -> None:
        await asyncio.sleep(0)
        raise ValueError("secret")

    with guarded(Policy(on_trip=broken)) as recording, loopguard.turn():
        for _ in range(4):
            assert await read_later("a") == "text of a"
        assert recording.counted("loopguard.internal_errors", loopguard__site="on_trip") >= 2


async def test_an_async_tool_runs_where_its_policy_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question if its decisions may have to be awaited is under the shield, too."""

    def broken(_: Turn) -> Policy:
        raise ArithmeticError

    async def look(at: int) -> str:
        return f"seen {at}"

    with guarded() as recording, loopguard.turn():
        monkeypatch.setattr(Turn, "policy", property(broken))
        assert [await loopguard.call("look", {"at": at}, look) for at in range(2)] == ["seen 0", "seen 1"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) > 0
