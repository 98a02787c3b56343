"""Patching and restoring functions, also if other libraries wrap them."""

from __future__ import annotations

import functools
import logging
import sys
import types
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import wrapt

from otel_loopguard.core.model import ToolCall
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.patching import Patches, Wrapper, fits, warn_of_missing
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, Reading, RunTarget, ToolAdapter, ToolTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "loopguard_test_framework"
ADAPTER = ToolAdapter(
    read=lambda instance, args, kwargs: Reading(ToolCall(args[0], args[1], None, ("look",))),
    answer=lambda reading, content, error: content,
)
TARGETS = (
    ToolTarget(MODULE, "Executor.run", ADAPTER),
    ToolTarget(MODULE, "run", ADAPTER),
    ToolTarget(MODULE, "run_again", ADAPTER),
    ToolTarget(MODULE, "not_in_this_version", ADAPTER),
)


class Executor:
    """A framework's executor."""

    def run(self, name: str, arguments: Any) -> str:
        """Run a tool."""
        return f"{name} of {arguments}"


def run(name: str, arguments: Any) -> str:
    """Run a tool."""
    return f"{name} of {arguments}"


@pytest.fixture
def framework() -> Iterator[Any]:
    """A module with an executor in it, imported already."""
    module = types.ModuleType(MODULE)
    module.Executor = type("Executor", (), {"run": Executor.run})  # type: ignore[attr-defined]
    module.run = module.run_again = run  # type: ignore[attr-defined]
    sys.modules[MODULE] = module
    yield module
    del sys.modules[MODULE]


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime that is on."""
    with guarded() as recording:
        assert recording.runtime is not None
        yield recording.runtime


def test_wrappers_come_and_go(framework: Any, runtime: Runtime) -> None:
    """After ``restore`` the framework's own functions are back, the very same objects."""
    method, function = vars(framework.Executor)["run"], framework.run
    patches = Patches(TARGETS)
    patches.install()
    assert isinstance(vars(framework.Executor)["run"], Wrapper)
    assert isinstance(framework.run, Wrapper)
    assert patches.restore() == []
    assert vars(framework.Executor)["run"] is method
    assert framework.run is framework.run_again is function


def test_a_missing_place_is_passed_over(framework: Any, runtime: Runtime) -> None:
    """A function that this version does not have is no fault, and the other targets are patched."""
    Patches(TARGETS).install()
    assert isinstance(framework.run, Wrapper)
    assert not runtime.shield.seen


def test_installing_twice_wraps_once(framework: Any, runtime: Runtime) -> None:
    """A second import hook does not wrap a function again."""
    Patches(TARGETS).install()
    Patches(TARGETS).install()
    assert not isinstance(framework.run.__wrapped__, Wrapper)


def test_a_function_imported_by_name_is_counted_once(framework: Any, runtime: Runtime) -> None:
    """A wrapped function that another module imported by name is counted once."""
    Patches(TARGETS[1:2]).install()
    framework.run_again = framework.run
    Patches(TARGETS).install()
    assert framework.run_again is framework.run
    assert not isinstance(framework.run_again.__wrapped__, Wrapper)


def test_somebody_elses_wrapper_is_never_stripped(framework: Any, runtime: Runtime) -> None:
    """Our wrapper under another library's stays, switched off, and the other one works."""
    patches = Patches(TARGETS)
    patches.install()
    theirs: list[str] = []

    def their_wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        theirs.append(args[0])
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(framework, "run", their_wrapper)
    active_runtime.put(None)
    assert patches.restore() == [f"{MODULE}:run"]
    assert [framework.run("look", {"path": "a"}) for _ in range(5)] == ["look of {'path': 'a'}"] * 5
    assert len(theirs) == 5
    active_runtime.put(runtime)


def test_without_a_runtime_a_wrapper_only_passes_on(framework: Any, runtime: Runtime) -> None:
    """A wrapper that stays after ``uninstrument`` neither counts nor refuses."""
    Patches(TARGETS).install()
    active_runtime.put(None)
    assert {framework.Executor().run("look", {"path": "a"}) for _ in range(9)} == {"look of {'path': 'a'}"}
    active_runtime.put(runtime)
    assert runtime.guard.live == 0


def test_a_module_that_is_imported_later_is_patched_then(framework: Any, runtime: Runtime, tmp_path: Any) -> None:
    """A module is patched when the program imports it, and is not imported before."""
    name = "loopguard_test_late"
    (tmp_path / f"{name}.py").write_text("def run(name, arguments):\n    return name\n")
    patches = Patches([ToolTarget(name, "run", ADAPTER)])
    patches.install()
    assert name not in sys.modules
    sys.path.insert(0, str(tmp_path))
    try:
        late = __import__(name)
    finally:
        sys.path.remove(str(tmp_path))
    assert isinstance(late.run, Wrapper)
    patches.restore()
    assert not isinstance(late.run, Wrapper)


def test_a_table_never_imports_its_framework() -> None:
    """Reading all tables imports no framework."""
    modules = {target.module.split(".")[0] for framework in FRAMEWORKS for target in framework.targets} - {"concurrent"}
    assert "langgraph" in modules
    code = (
        "import sys\nfrom otel_loopguard.instrumentation.frameworks import FRAMEWORKS\n"
        f"print([name for name in {sorted(modules)!r} if name in sys.modules])"
    )
    import subprocess

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "[]"


def test_the_executors_that_are_patched() -> None:
    """The patched functions equal an independent list, so a lost target is noticed."""
    expected = {
        "langgraph.prebuilt.tool_node:ToolNode._run_one",
        "langgraph.prebuilt.tool_node:ToolNode._arun_one",
        "langchain_core.tools.base:BaseTool.run",
        "langchain_core.tools.base:BaseTool.arun",
        "langgraph.pregel.main:Pregel.stream",
        "langgraph.pregel.main:Pregel.astream",
        "langgraph.pregel:Pregel.stream",
        "langgraph.pregel:Pregel.astream",
        "langchain_classic.chains.base:Chain.invoke",
        "langchain_classic.chains.base:Chain.ainvoke",
        "langchain_classic.agents.agent:AgentExecutor.stream",
        "langchain_classic.agents.agent:AgentExecutor.astream",
        "concurrent.futures.thread:ThreadPoolExecutor.submit",
    }
    assert expected <= {f"{target.module}:{target.path}" for framework in FRAMEWORKS for target in framework.targets}


def test_uninstrument_says_what_it_left(
    framework: Any, runtime: Runtime, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log names the places where our wrapper stays under another one."""
    from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor

    patches = Patches(TARGETS[1:2])
    patches.install()
    wrapt.wrap_function_wrapper(framework, "run", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))
    instrumentor = LoopGuardInstrumentor()
    monkeypatch.setattr(instrumentor, "_patches", (patches,))
    with caplog.at_level(logging.INFO, "otel_loopguard"):
        instrumentor._uninstrument()
    assert f"{MODULE}:run" in caplog.text
    active_runtime.put(runtime)


# --- other versions, and modules of the same name


def plain() -> None: ...


async def coroutine() -> None: ...


def generator() -> Any:
    yield


async def async_generator() -> Any:
    yield


@functools.wraps(coroutine)
def wrapped_by_somebody() -> Any:
    return coroutine()


@pytest.mark.parametrize(
    ("style", "fitting"),
    [
        (CallStyle.SYNC, {plain}),
        (CallStyle.BACKGROUND, {plain}),
        (CallStyle.ASYNC, {coroutine, wrapped_by_somebody}),
        (CallStyle.GENERATOR, {plain, generator}),
        (CallStyle.ASYNC_GENERATOR, {plain, async_generator}),
    ],
)
def test_only_a_function_of_the_rows_sort_is_wrapped(style: CallStyle, fitting: set[Any]) -> None:
    """A plain function that got an async wrapper would return a coroutine to callers that do not await it."""
    point = ToolTarget("m", "f", ADAPTER, style)
    functions = {plain, coroutine, generator, async_generator, wrapped_by_somebody}
    assert {function for function in functions if fits(function, point)} == fitting


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """An imported module without functions."""
    made = ModuleType("loopguard_test_places")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_a_programs_own_module_of_that_name_works_as_before(module: Any, caplog: Any) -> None:
    """A program's own module with a framework's name is neither patched nor mentioned in the log."""
    module.run = plain
    patches = Patches(
        [ToolTarget(module.__name__, "run", ADAPTER, CallStyle.ASYNC), ToolTarget(module.__name__, "gone", ADAPTER)]
    )
    with guarded(), caplog.at_level(logging.INFO):
        caplog.clear()
        patches.install()
        assert module.run is plain
    assert caplog.messages == []


def test_a_version_without_any_known_place_is_told(caplog: Any) -> None:
    """One warning names the package, its version and the unguarded calls; there is none if one target exists."""
    old, new = ToolTarget("pytest.m", "old", ADAPTER), ToolTarget("pytest.m", "new", ADAPTER)
    rest = (ToolTarget("pytest.m", "late", ADAPTER, optional=True), RunTarget("pytest.m", "run", lambda *_: RunInfo()))
    warn_of_missing("pytest.m", [old, new, *rest], [old, rest[0]])
    assert caplog.messages == []
    warn_of_missing("pytest.m", [old, new, *rest], [old, new, rest[0]])
    (warning,) = caplog.messages
    assert f"pytest {pytest.__version__}" in warning
    assert "tool calls are not guarded" in warning
