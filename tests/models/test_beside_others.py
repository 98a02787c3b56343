"""Loops under the guard and other instrumentations of the same clients and frameworks, in either order.

Whatever else is on: a loop ends at the same request, each call has one span of ours and is counted once.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard import Policy, semconv
from otel_loopguard.testing import guarded
from tests.instrumentation.processes import NOTHING_EXPORTED, ROOT, start
from tests.models import test_beside_adapters as programs
from tests.models.loops import loops_of, run
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

if find_spec("logfire") is None:
    pytest.skip("other instrumentations are tested in an environment of their own", allow_module_level=True)

from opentelemetry.sdk.trace import TracerProvider

pytestmark = pytest.mark.filterwarnings("ignore")

# Its own writer would send to an agent on this machine.
os.environ |= {
    "DD_TRACE_ENABLED": "true",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
}
QUESTION = "task-1: what is in it?"
READ = call("read_file", path="a.txt")
LOOKED = "I looked."

# --- other instrumentations: each is switched on by a function, which returns the one that switches it off -----------


def instrumentors(*names: str) -> Callable[[], Callable[[], None]]:
    """Instrumentations as ``opentelemetry-instrument`` loads them: ``module:Class``."""

    def on() -> Callable[[], None]:
        provider = TracerProvider()
        found = [getattr(import_module(name.partition(":")[0]), name.partition(":")[2])() for name in names]
        for one in found:
            one.instrument(tracer_provider=provider, skip_dep_check=True)
            assert one.is_instrumented_by_opentelemetry

        def off() -> None:
            for one in found:
                one.uninstrument()

        return off

    return on


def logfire_of(provider: str) -> Callable[[], Callable[[], None]]:
    """Logfire's patch of the classes of a client."""

    def on() -> Callable[[], None]:
        import logfire

        local = logfire.configure(local=True, send_to_logfire=False, console=False)
        manager = getattr(local, f"instrument_{provider}")()

        def off() -> None:
            with manager:
                pass

        return off

    return on


def logfire_objects() -> Callable[[], None]:
    """Logfire's patch of each client as an object, once the program has made it."""
    import logfire

    from tests.models.loops import openai as loops

    local = logfire.configure(local=True, send_to_logfire=False, console=False)
    made = loops.client_of, loops.async_client_of

    def patched(make: Callable[[str], Any]) -> Callable[[str], Any]:
        def client_of(url: str) -> Any:
            client = make(url)
            local.instrument_openai(client)
            return client

        return client_of

    def off() -> None:
        loops.client_of, loops.async_client_of = made

    loops.client_of, loops.async_client_of = map(patched, made)
    return off


def logfire_pydantic_ai() -> Callable[[], None]:
    """Logfire's use of Pydantic AI's own instrumentation."""
    import logfire
    from pydantic_ai import Agent

    logfire.configure(local=True, send_to_logfire=False, console=False).instrument_pydantic_ai()
    return lambda: Agent.instrument_all(False)


def sentry() -> Callable[[], None]:
    """Sentry with its integrations, which stay until the process ends."""
    import sentry_sdk

    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", traces_sample_rate=1.0, transport=lambda _: None)
    return lambda: None


def ddtrace() -> Callable[[], None]:
    """Datadog's patches of both clients."""
    from ddtrace import patch
    from ddtrace.contrib.internal.anthropic.patch import unpatch as unpatch_anthropic
    from ddtrace.contrib.internal.openai.patch import unpatch as unpatch_openai

    patch(openai=True, anthropic=True)

    def off() -> None:
        unpatch_openai()
        unpatch_anthropic()

    return off


def langfuse() -> Callable[[], None]:
    """Langfuse's drop-in of OpenAI's client, which patches it when it is imported."""
    import_module("langfuse.openai")
    return lambda: None


OTHERS: dict[str, Callable[[], Callable[[], None]]] = {
    "openinference": instrumentors(
        "openinference.instrumentation.openai:OpenAIInstrumentor",
        "openinference.instrumentation.anthropic:AnthropicInstrumentor",
        "openinference.instrumentation.langchain:LangChainInstrumentor",
        "openinference.instrumentation.openai_agents:OpenAIAgentsInstrumentor",
    ),
    "openllmetry": instrumentors(
        "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
        "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor",
        "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
        "opentelemetry.instrumentation.openai_agents:OpenAIAgentsInstrumentor",
    ),
    "opentelemetry-genai": instrumentors(
        "opentelemetry.instrumentation.genai.openai:OpenAIInstrumentor",
        "opentelemetry.instrumentation.genai.anthropic:AnthropicInstrumentor",
    ),
    "logfire-openai": logfire_of("openai"),
    "logfire-anthropic": logfire_of("anthropic"),
    "logfire-objects": logfire_objects,
    "logfire-pydantic-ai": logfire_pydantic_ai,
    "sentry": sentry,
    "ddtrace": ddtrace,
    "langfuse": langfuse,
}

# --- programs ------------------------------------------------------------------------------------------------------


def by_hand(name: str, server: Server) -> str:
    """A hand-written loop over a client."""
    return run(loops_of(name.partition(".")[0])[name], server.url, QUESTION, Toolbox())


PROGRAMS: dict[str, Callable[[Server], str]] = {
    **{
        name: partial(by_hand, name)
        for name in (
            "openai.chat", "openai.chat_stream", "openai.chat_stream_async", "openai.responses", "anthropic.messages",
            "anthropic.messages_stream",
        )
    },
    "langchain": programs.langgraph,
    "openai-agents": programs.openai_agents,
    "pydantic-ai": programs.pydantic_ai,
}  # fmt: skip


AFTERWARDS = ("openai.chat", "openai.chat_stream_async", "openai.responses", "anthropic.messages", "langchain")
"""The programs that are run again when the other is off, and on again."""


class Ended(NamedTuple):
    """How a loop ended, and what the guard has told of it."""

    text: str
    requests: int
    outcomes: list[str]
    calls: float
    trips: list[Any]
    faults: float


def loop(program: Callable[[Server], str]) -> Ended:
    """Run a program whose model repeats a call until its tools are withdrawn; the guard is on for this run.

    They are withdrawn earlier than by default: each request costs, and what is around it is the same.
    """
    with (
        guarded(Policy(conclude_after=3), clock=lambda: 0.0) as recording,
        Server(Looping(READ, answer=LOOKED)).running() as server,
    ):
        text = program(server)
    return Ended(
        text,
        len(server.bodies()),
        recording.outcomes,
        recording.counted(semconv.METRIC_TOOL_CALLS),
        recording.trips,
        recording.counted(semconv.METRIC_INTERNAL_ERRORS),
    )


def ordinary(program: Callable[[Server], str]) -> list[str]:
    """The requests of a program whose model makes two different calls and answers."""
    with Server(Working(READ, call("read_file", path="b.txt"), answer="Ada.")).running() as server:
        assert program(server) == "Ada."
    return [body.decode() for body in server.bodies()]


def alone() -> dict[str, Ended]:
    """How the loop of each program ends with the guard alone."""
    return {name: loop(program) for name, program in PROGRAMS.items()}


def beside(other: str, order: str, expected: dict[str, Ended]) -> dict[str, list[str]]:
    """For each program, the ways in which its loop ends otherwise than expected; none is as it must be.

    The other is on, then off, then on again.
    """
    found: dict[str, list[str]] = {name: [] for name in PROGRAMS}
    with ExitStack() as stack:
        if order == "guard-first":
            stack.enter_context(guarded())
        off = OTHERS[other]()
        if order == "guard-last":
            stack.enter_context(guarded())
        for step in ("on", "off", "on again"):
            if step == "off":
                off()
            elif step == "on again":
                off = OTHERS[other]()
            for name in PROGRAMS if step == "on" else AFTERWARDS:
                ended = loop(PROGRAMS[name])
                found[name] += [
                    f"{step}: {field}: {getattr(ended, field)} in place of {getattr(expected[name], field)}"
                    for field in Ended._fields
                    if getattr(ended, field) != getattr(expected[name], field)
                ]
    return found


def requests_beside(other: str, order: str) -> dict[str, list[str]]:
    """The requests of an ordinary run of each program, beside the other: ``without-guard`` or in either order."""
    with ExitStack() as stack:
        if order == "guard-first":
            stack.enter_context(guarded())
        OTHERS[other]()
        if order == "guard-last":
            stack.enter_context(guarded())
        return {name: ordinary(program) for name, program in PROGRAMS.items()}


FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [__name__, "agents", "anthropic", "langchain.agents", "langchain_openai", "logfire", "pydantic_ai.models.anthropic"]
)


def in_a_process(what: Callable[..., Any], *arguments: Any) -> Any:
    """Run one of the functions above in a process of its own: some leave patches behind when they are switched off.

    It is the fork of one that has imported the clients and frameworks, which takes longer than all else.
    """
    with ProcessPoolExecutor(1, mp_context=FORKS) as processes:
        return processes.submit(what, *arguments).result()


@pytest.fixture(scope="module")
def expected() -> dict[str, Ended]:
    """How the loops end with the guard alone."""
    found: dict[str, Ended] = in_a_process(alone)
    assert {(one.text, one.faults) for one in found.values()} == {(LOOKED, 0)}
    return found


EACH = pytest.mark.parametrize("other", OTHERS)


@pytest.mark.parametrize("order", ["guard-first", "guard-last"])
@EACH
def test_each_loop_ends_as_with_the_guard_alone(other: str, order: str, expected: dict[str, Ended]) -> None:
    """At the same request, with the same spans and counts; also after the other is switched off, and on again."""
    assert in_a_process(beside, other, order, expected) == {name: [] for name in PROGRAMS}


@EACH
def test_an_ordinary_run_sends_the_same_bytes(other: str) -> None:
    """In either order each request is what it is without the guard."""
    orders = ("without-guard", "guard-first", "guard-last")
    without, first, last = (in_a_process(requests_beside, other, order) for order in orders)
    assert first == without
    assert last == without


# --- from process start ------------------------------------------------------------------------------------------

LOGFIRE = """
import logfire
logfire.configure(send_to_logfire=False, console=False)
logfire.instrument_openai()
"""
PROGRAM = """
import sys
{before}
from tests.models.loops import loops_of, run
from tests.models.toolbox import Toolbox
print(run(loops_of("openai")["openai.chat"], sys.argv[1], "task-1: what is in it?", Toolbox()))
"""
FIRST = {
    "guard-first": "loopguard = otel_loopguard.instrumentation.instrumentor:LoopGuardInstrumentor",
    "guard-last": "openai = openinference.instrumentation.openai:OpenAIInstrumentor",
}
"""The entry point that is loaded first. Without this it is that of the folder which is listed first."""


@pytest.mark.parametrize("before", ["", LOGFIRE], ids=["all-entry-points", "logfire"])
@pytest.mark.parametrize("order", FIRST)
def test_a_loop_ends_as_alone_from_process_start(order: str, before: str, tmp_path: Path) -> None:
    """Under ``opentelemetry-instrument`` with the instrumentations of all packages here; then with Logfire, too."""
    info = tmp_path / "first-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[opentelemetry_instrumentor]\n{FIRST[order]}\n")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(before=before))
    environment = {**NOTHING_EXPORTED, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ""}
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with Server(Looping(READ, answer=LOOKED)).running() as server:
        ended = start(script, server.url, environment=environment)
    assert ended.stdout.strip().endswith(LOOKED), ended.stderr
    assert len(server.bodies()) == 10
    assert "otel_loopguard: 9 tool calls, 1 loop, 8 nudges" in ended.stderr
    assert "fault of its own" not in ended.stderr
