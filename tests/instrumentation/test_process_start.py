"""Process start: the loop of an unchanged program is stopped under any setting of OpenTelemetry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_loopguard import semconv
from otel_loopguard.instrumentation.process_start import ProcessStart
from tests.telemetry.otlp import attributes, receiver

from .processes import EXAMPLE, NOTHING_EXPORTED, clean_environment, start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_loopguard.telemetry.idle_watcher import WaitingWatcher

pytest.importorskip("langchain")

STOPPED = "The file was read 2 times."
NOT_STOPPED = "The file was read 12 times."
LOOP = """
import otel_loopguard
read = []
with otel_loopguard.turn():
    for _ in range(12):
        otel_loopguard.call("read_file", {}, lambda: read.append(1) or "a text")
print(f"The file was read {len(read)} times.")
"""
"""What the example does, without a framework: a fifth of the time. For what does not depend on the program."""


def test_the_stuck_agent_is_stopped_and_seen() -> None:
    """The third identical read is refused; span, event and counters arrive, and counters link to the trace."""
    with receiver() as received:
        ended = start(EXAMPLE, environment=received.environment)
        assert ended.returncode == 0, ended.stderr
        assert STOPPED in ended.stdout
        assert "tool_loop_detected" in ended.stdout
        assert "Refused read_file" in ended.stderr
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed", "nudged", "blocked"]
        assert {span.name for span in received.spans} == {"execute_tool read_file"}
        assert [span.name for span in received.all_spans if span not in received.spans] == ["invoke_agent"]
        assert len({span.trace_id for span in received.all_spans}) == 1
        (event,) = received.spans[2].events
        assert event.name == "tool_loop_detected"
        assert attributes(event)[semconv.MODE] == "generic_repeat"
        counted = [point for point in received.points(semconv.METRIC_TRIPS) if point["value"]]
        assert {(point[semconv.ACTION], point["value"]) for point in counted} == {("nudge", 1), ("block", 1)}
        assert all(point["exemplars"] for point in counted)


def test_a_working_agent_is_left_alone() -> None:
    """A working agent has no trip, and the same answer as without the guard."""
    with receiver() as received:
        ended = start(EXAMPLE, "--working", environment=received.environment)
        assert "The agent answers: Done." in ended.stdout
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed"] * 3
        assert not any(span.events for span in received.spans)
        assert all(point["value"] == 0 for point in received.points(semconv.METRIC_TRIPS))


@pytest.mark.parametrize(
    "settings",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_PYTHON_TRACER_PROVIDER": "default_tracer_provider", "OTEL_PYTHON_LOOPGUARD_EVENTS": "log"},
        {"OTEL_PYTHON_TRACER_PROVIDER": "bogus", "OTEL_PYTHON_CONFIGURATOR": "there_is_none"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_the_loop_is_stopped_whatever_becomes_of_telemetry(settings: Mapping[str, str]) -> None:
    """Protection does not depend on an SDK, a provider or a configurator; nor, as tests below show, on a sampler."""
    ended = start(EXAMPLE, environment={**NOTHING_EXPORTED, **settings})
    assert STOPPED in ended.stdout, ended.stderr


def test_a_program_that_switches_the_guard_on_itself_does_not_need_the_start_of_opentelemetry(tmp_path: Path) -> None:
    """A wrong limit keeps ``opentelemetry-instrument`` from loading any instrumentation, until the program does so."""
    app = tmp_path / "app.py"
    app.write_text(
        "import runpy, otel_loopguard\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "print('then')\n"
        "otel_loopguard.instrument()\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
    )
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_ATTRIBUTE_COUNT_LIMIT": "many"})
    before, _, after = ended.stdout.partition("then\n")
    assert NOT_STOPPED in before, ended.stderr
    assert STOPPED in after, ended.stderr


def test_trips_are_counted_though_nothing_is_sampled() -> None:
    """With ``always_off`` the loop is stopped, there is no span, and the counters are right."""
    with receiver() as received:
        ended = start(EXAMPLE, environment={**received.environment, "OTEL_TRACES_SAMPLER": "always_off"})
        assert STOPPED in ended.stdout, ended.stderr
        assert received.spans == []
        assert sum(point["value"] for point in received.points(semconv.METRIC_TRIPS)) == 2


@pytest.mark.parametrize(
    ("prelude", "remedy"),
    [
        ("sys.modules['opentelemetry.distro'] = None", "pip install opentelemetry-distro"),  # as if not installed
        ("", "`otel-loopguard doctor -- COMMAND` names the reason."),
    ],
    ids=["without-distro", "with-distro"],
)
def test_without_an_sdk_the_remedy_fits_the_environment(prelude: str, remedy: str, tmp_path: Path) -> None:
    """Nothing is exported, and the loop is stopped. The distro is named where it is missing, and once."""
    app = tmp_path / "app.py"
    app.write_text(f"import sys\n{prelude}\n{LOOP}")
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_CONFIGURATOR": "there_is_none"})
    assert STOPPED in ended.stdout, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if "No OpenTelemetry SDK is set up" in line]
    assert line.endswith(f"and nothing is exported. {remedy}")


def test_a_start_in_code_needs_no_sdk(tmp_path: Path) -> None:
    """The program may want no telemetry: it has no warning, and at the level INFO the way to telemetry."""
    app = tmp_path / "app.py"
    app.write_text(
        "import logging, otel_loopguard\nlogging.basicConfig(level=logging.INFO)\notel_loopguard.instrument()\n" + LOOP
    )
    ended = subprocess.run(
        [sys.executable, str(app)], env=clean_environment({}), capture_output=True, text=True, timeout=120, check=False
    )
    assert STOPPED in ended.stdout
    (line,) = [line for line in ended.stderr.splitlines() if "No OpenTelemetry SDK is set up" in line]
    assert line.startswith("INFO:otel_loopguard:")
    assert line.endswith("To export, set up the SDK, or give providers to otel_loopguard.instrument().")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Under ``off`` every call runs; so it does under ``observe``, see the test of the flags."""
    app = tmp_path / "app.py"
    app.write_text(LOOP)
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_LOOPGUARD_ACTION": "off"})
    assert NOT_STOPPED in ended.stdout, ended.stderr


def test_a_provider_that_is_set_later_gets_the_spans(tmp_path: Path) -> None:
    """A program that sets OpenTelemetry up itself, after us, has our spans with their events."""
    app = tmp_path / "app.py"
    app.write_text(
        "import runpy, sys\n"
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter\n"
        "exporter = InMemorySpanExporter()\n"
        "provider = TracerProvider()\n"
        "provider.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(provider)\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "print([event.name for span in exporter.get_finished_spans() for event in span.events])\n"
    )
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_CONFIGURATOR": "there_is_none"})
    assert "['tool_loop_detected', 'tool_loop_detected']" in ended.stdout, ended.stderr


def test_the_help_lists_the_settings_and_never_the_key() -> None:
    """The hash key is no flag, because other users can read the flags of a process."""
    if not any(point.name == "loopguard" for point in entry_points(group="opentelemetry_environment_variables")):
        pytest.skip("the installed package has no opentelemetry_environment_variables entry point yet")
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    text = subprocess.run(
        [str(command), "--help"], capture_output=True, text=True, timeout=60, check=True, env=clean_environment()
    ).stdout
    assert "--loopguard_action" in text
    assert "--loopguard_conversation_id" in text
    assert "hash_key" not in text
    ended = start(EXAMPLE, flags=("--loopguard_action", "observe"))
    assert NOT_STOPPED in ended.stdout


def test_importing_the_package_costs_next_to_nothing() -> None:
    """Importing the package imports no OpenTelemetry, wrapt or framework."""
    code = (
        "import sys; import otel_loopguard; "
        "print([name for name in ('opentelemetry', 'wrapt', 'orjson', 'rapidfuzz', 'langchain_core', 'asyncio') "
        "if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


def test_instrumenting_imports_no_framework() -> None:
    """A program that uses no agent framework never pays for one."""
    code = (
        "import sys, otel_loopguard; otel_loopguard.instrument(); "
        "print([name for name in ('langchain_core', 'langgraph', 'mcp', 'agents') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


CALLS = """
import otel_loopguard as loopguard
with loopguard.turn():
    for number in range(3):
        loopguard.call("look", {"number": number}, lambda number: f"text of {number}")
print("done")
"""


@pytest.mark.parametrize(
    ("set_up", "times"),
    [
        ("import logging; logging.basicConfig(level=logging.INFO)", 1),
        ("import logging; logging.basicConfig()", 0),
        ("", 0),
    ],
    ids=["logs at INFO", "logs at WARNING", "sets up no logging"],
)
def test_the_line_at_start_is_heard_once_where_somebody_listens(tmp_path: Path, set_up: str, times: int) -> None:
    """If logging is set up after the start, the policy is logged at the first call."""
    app = tmp_path / "app.py"
    app.write_text(set_up + CALLS)
    ended = start(app)
    assert "done" in ended.stdout, ended.stderr
    assert ended.stderr.count("otel_loopguard is on: action block, policy default.") == times, ended.stderr
    assert times or ended.stderr == "otel_loopguard: 3 tool calls, no loop.\n"


# --- a process without an agent --------------------------------------------------------------------------------------

MODULES = "import json, sys\nprint(json.dumps(sorted(sys.modules)))\n"
MOST_MODULES = 30
"""Modules of the package in a process without an agent. Who lowers them lowers the limit."""


def imported(folder: Path, more: Mapping[str, str] | None = None, program: str = "") -> set[str]:
    """Return the modules of a program that was started by OpenTelemetry."""
    app = folder / "app.py"
    app.write_text(program + MODULES)
    ended = start(app, environment={**NOTHING_EXPORTED, **(more or {})})
    assert ended.stderr == ""
    return set(json.loads(ended.stdout.splitlines()[-1]))


def ours(modules: Iterable[str]) -> set[str]:
    """Return those of them that are of the package."""
    return {name for name in modules if name.partition(".")[0] == "otel_loopguard"}


def test_a_process_without_an_agent_pays_for_none(tmp_path: Path) -> None:
    """The start imports no engine, no adapter, no policy and no store, and nothing heavy that others have made.

    With ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=loopguard`` nothing of the package is imported.
    """
    alone = imported(tmp_path, {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "loopguard"})
    modules = imported(tmp_path)
    assert not ours(alone)
    assert len(ours(modules)) <= MOST_MODULES, sorted(ours(modules))
    rooms = ("engine.policy", "engine.fold", "guard", "policy_files", "store", "instrumentation.runtime")
    adapters = ("instrumentation.frameworks.langchain", "instrumentation.models.openai", "instrumentation.patching")
    assert not modules & {f"otel_loopguard.{name}" for name in (*rooms, *adapters)}
    foreign = {name.partition(".")[0] for name in modules - alone}
    assert foreign - sys.stdlib_module_names == {"otel_loopguard", "orjson"}
    assert not foreign & {"asyncio", "concurrent", "multiprocessing", "ssl", "statistics", "tomllib"}


def test_a_policy_is_checked_at_the_start_without_the_guard(tmp_path: Path) -> None:
    """A policy without a mistake needs no engine before the first call, which it judges."""
    policy = tmp_path / "policy.toml"
    policy.write_text('action = "off"\n')
    environment = {"OTEL_PYTHON_LOOPGUARD_CONFIG": str(policy)}
    modules = imported(tmp_path, environment)
    assert "otel_loopguard.policy_files.load" in modules
    assert not modules & {"otel_loopguard.guard.guard", "otel_loopguard.engine.fold"}
    calls = (
        "import otel_loopguard\n"
        "with otel_loopguard.turn():\n"
        "    seen = {otel_loopguard.call('look', {}, str) for _ in range(9)}\n"
        "assert seen == {''}\n"
    )
    assert "otel_loopguard.engine.fold" in imported(tmp_path, environment, calls)


@pytest.mark.parametrize(
    "mistakes",
    [
        {
            "ACTION": ("observ", "ACTION = 'observ'"),
            "MODE": ("shadow", "MODE: no such variable"),
            "CONFIG": ("/there/is/none", "CONFIG: cannot be read"),
            "SCOPE": ("galaxy", "SCOPE = 'galaxy'"),
        },
        {
            "EVENTS": ("spam", "EVENTS = 'spam': must be one of span, log, both"),
            "HASH_KEY": ("pw1", "HASH_KEY: the hash key has 3 bytes"),
            "STORE": ("nonsense://", "OTEL_PYTHON_LOOPGUARD_STORE: "),  # also where the extra is missing
        },
        {
            "HASH_KEY_FILE": ("/there/is/none", "the file of the hash key cannot be read"),
            "STORE_EXPIRY": ("soon", "STORE_EXPIRY = 'soon'"),
        },
    ],
    ids=", ".join,
)
def test_a_mistake_is_told_at_the_start_of_any_process(tmp_path: Path, mistakes: dict[str, tuple[str, str]]) -> None:
    """Whoever sets a variable reads about its mistake at once, and once, although the process has no agent."""
    app = tmp_path / "app.py"
    app.write_text("")
    wrong = {f"OTEL_PYTHON_LOOPGUARD_{variable}": value for variable, (value, _) in mistakes.items()}
    ended = start(app, environment={**NOTHING_EXPORTED, **wrong})
    times = {variable: ended.stderr.count(told) for variable, (_, told) in mistakes.items()}
    assert times == dict.fromkeys(mistakes, 1), ended.stderr


def test_a_wrong_setting_never_kills_the_program(tmp_path: Path) -> None:
    """Nothing is refused then."""
    app = tmp_path / "app.py"
    app.write_text(LOOP)
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_LOOPGUARD_ACTION": "observ"})
    assert NOT_STOPPED in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "use",
    [
        "import otel_loopguard; otel_loopguard.call('look', {}, str)",
        "import openai",
        "from langchain_core.tools import BaseTool",
        "from opentelemetry import trace\n"
        "tracer = trace.get_tracer('other')\n"
        "with tracer.start_as_current_span('invoke_agent', attributes={'gen_ai.operation.name': 'invoke_agent'}):\n"
        "    tool = {'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look'}\n"
        "    with tracer.start_as_current_span('execute_tool look', attributes=tool):\n        pass\n",
    ],
    ids=["a call", "a client", "a framework", "a span of another instrumentation"],
)
def test_the_first_use_switches_all_on(use: str, tmp_path: Path) -> None:
    """The guard is on as if it had not waited; thread pools, which every process imports, are patched then."""
    if "openai" in use:
        pytest.importorskip("openai")
    app = tmp_path / "app.py"
    app.write_text(
        "from concurrent.futures import ThreadPoolExecutor as pool\n"
        "from otel_loopguard.instrumentation.process_start import process_start\n"
        "before, submit = type(process_start.watcher).__name__, pool.submit\n"
        f"{use}\n"
        "from otel_loopguard.instrumentation.patching import is_ours\n"
        "from otel_loopguard.instrumentation.runtime import active_runtime\n"
        "print(before, type(process_start.watcher).__name__, is_ours(submit), is_ours(pool.submit))\n"
        "print(active_runtime.instrumented.providers.summary.calls)\n"
    )
    ended = start(app)
    watchers, calls = ended.stdout.splitlines()
    assert watchers == "WaitingWatcher SpanWatcher False True", ended.stderr
    assert int(calls) == ("look" in use)


def test_a_start_that_waits_can_be_taken_back(tmp_path: Path) -> None:
    """What is imported after ``uninstrument()`` is not patched; a later ``instrument()`` patches it."""
    app = tmp_path / "app.py"
    app.write_text(
        "import otel_loopguard, sys\n"
        "otel_loopguard.uninstrument()\n"
        "import langchain_core.tools\n"
        "from otel_loopguard.instrumentation.patching import is_ours\n"
        "run = lambda: vars(langchain_core.tools.BaseTool)['run']\n"
        "print(is_ours(run()))\n"
        "otel_loopguard.instrument()\n"
        "print(is_ours(run()))\n"
        "otel_loopguard.uninstrument()\n"
        "print(is_ours(run()))\n"
    )
    ended = start(app)
    assert ended.stdout.split() == ["False", "True", "False"], ended.stderr


def test_an_adapter_that_cannot_be_imported_is_a_fault_and_no_more(tmp_path: Path) -> None:
    """The program has its import; the fault is counted, and told once, although two modules need the adapter."""
    app = tmp_path / "app.py"
    app.write_text(
        "import sys\n"
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.metrics.export import InMemoryMetricReader\n"
        "reader = InMemoryMetricReader()\n"
        "metrics.set_meter_provider(MeterProvider([reader]))\n"
        "adapter = 'otel_loopguard.instrumentation.frameworks.langchain'\n"
        "sys.modules[adapter] = None  # its import fails\n"
        "import langchain_core.tools, langgraph.pregel\n"
        "data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics\n"
        "(errors,) = (one.data.data_points for one in data if one.name == 'loopguard.internal_errors')\n"
        "counted = [point.value for point in errors if adapter in str(dict(point.attributes))]\n"
        "print(langchain_core.tools.__name__, counted)\n"
    )
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_CONFIGURATOR": "there_is_none"})
    told = "a fault of its own at import.otel_loopguard.instrumentation.frameworks.langchain (ModuleNotFoundError"
    assert ended.stderr.count(told) == 1, ended.stderr
    name, counted = ended.stdout.split(maxsplit=1)
    assert name == "langchain_core.tools"
    assert json.loads(counted)[0] >= 2


def test_nothing_is_made_within_the_making() -> None:
    """A signal handler that needs the runtime while it is made, in the same thread, does not begin again."""
    process, made = ProcessStart(), []

    def switch_on(waiting: WaitingWatcher) -> None:
        process.wake()
        made.append(waiting)
        process.give_up(waiting)

    process.at_first_use(switch_on)
    waiting = process.watcher
    process.wake()
    process.wake()
    assert made == [waiting]
    assert process.watcher is None


def test_an_exception_that_a_signal_handler_raises_leaves_the_start_waiting() -> None:
    """A time limit that strikes while the runtime is made ends the program's work, and the next use makes it."""
    process, strikes = ProcessStart(), iter([TimeoutError, None])

    def switch_on(waiting: WaitingWatcher) -> None:
        strike = next(strikes)
        if strike is not None:
            raise strike
        process.give_up(waiting)

    process.at_first_use(switch_on)
    with pytest.raises(TimeoutError):
        process.wake()
    assert process.watcher is not None
    process.wake()
    assert process.watcher is None


def test_of_two_threads_one_makes_the_runtime(tmp_path: Path) -> None:
    """Threads that use the guard at once have one runtime, and count into it."""
    app = tmp_path / "app.py"
    app.write_text(
        "import otel_loopguard, threading\n"
        "from otel_loopguard.instrumentation.runtime import active_runtime\n"
        "gate, found = threading.Barrier(8), []\n"
        "def use():\n"
        "    gate.wait()\n"
        "    otel_loopguard.call('look', {}, str)\n"
        "    found.append(active_runtime.get())\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(found), len(set(map(id, found))), found[0] is active_runtime.instrumented)\n"
        "print(found[0].providers.summary.calls)\n"
    )
    ended = start(app)
    assert ended.stdout.splitlines() == ["8 1 True", "8"], ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_of_a_process_that_waits_makes_its_own_runtime(tmp_path: Path) -> None:
    """As in a server whose workers import the agent. The parent goes on waiting; its open spans are not the child's."""
    app = tmp_path / "app.py"
    app.write_text(
        "import os, otel_loopguard\n"
        "from opentelemetry import trace\n"
        "from otel_loopguard.instrumentation.process_start import process_start\n"
        "with trace.get_tracer('other').start_as_current_span('request'):\n"
        "    print(len(process_start.watcher.open_spans), flush=True)\n"
        "    if os.fork() == 0:\n"
        "        print(len(process_start.watcher.open_spans), flush=True)\n"
        "        with otel_loopguard.turn():\n"
        "            kinds = [otel_loopguard.call('look', {}, lambda: 'text') for _ in range(3)]\n"
        "        print('tool_loop_detected' in kinds[-1], type(process_start.watcher).__name__, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "print(type(process_start.watcher).__name__)\n"
    )
    ended = start(app)
    assert ended.stdout.splitlines() == ["1", "0", "True SpanWatcher", "WaitingWatcher"], ended.stderr
