"""Patching and restoring functions, also if other libraries wrap them."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import traceback
import types
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import wrapt

import otel_loopguard as loopguard
from otel_loopguard.engine.vocabulary import ToolCall
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.patching import Patches, fits, is_ours, warn_of_missing
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    OverrideTarget,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
    assert is_ours(vars(framework.Executor)["run"])
    assert is_ours(framework.run)
    assert patches.restore() == []
    assert vars(framework.Executor)["run"] is method
    assert framework.run is framework.run_again is function


def test_a_missing_place_is_passed_over(framework: Any, runtime: Runtime) -> None:
    """A function that this version does not have is no fault, and the other targets are patched."""
    Patches(TARGETS).install()
    assert is_ours(framework.run)
    assert not runtime.shield.seen


def test_a_module_that_calls_itself_another_name_is_patched(framework: Any, runtime: Runtime) -> None:
    """The name that a module is imported by counts: CrewAI gives its modules the ``__name__`` of another one."""
    framework.__name__ = "another_name"
    Patches(TARGETS).install()
    assert is_ours(framework.run)
    Patches(TARGETS).restore()
    assert framework.run is run


def test_installing_twice_wraps_once(framework: Any, runtime: Runtime) -> None:
    """A second import hook does not wrap a function again."""
    Patches(TARGETS).install()
    Patches(TARGETS).install()
    assert not is_ours(framework.run.__wrapped__)


def test_a_function_imported_by_name_is_counted_once(framework: Any, runtime: Runtime) -> None:
    """A wrapped function that another module imported by name is counted once."""
    Patches(TARGETS[1:2]).install()
    framework.run_again = framework.run
    Patches(TARGETS).install()
    assert framework.run_again is framework.run
    assert not is_ours(framework.run_again.__wrapped__)


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
    assert is_ours(late.run)
    patches.restore()
    assert not is_ours(late.run)


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
    monkeypatch.setitem(instrumentor._patches, "of the test", patches)
    with caplog.at_level(logging.INFO, "otel_loopguard"):
        instrumentor._uninstrument()
    assert f"{MODULE}:run" in caplog.text
    active_runtime.put(runtime)


# --- the sort of a replacement


class Kinds:
    """A function of each sort that a class may have."""

    @staticmethod
    def fixed(name: str, arguments: Any) -> str:
        """A static method."""
        return f"{name} of {arguments}"

    @classmethod
    def named(cls, name: str, arguments: Any) -> str:
        """A class method."""
        return f"{name} of {arguments} in {cls.__name__}"

    def pieces(self, name: str) -> Iterator[str]:
        """A generator."""
        yield name

    async def pieces_later(self, name: str) -> AsyncIterator[str]:
        """An async generator."""
        yield name

    def eager(self, name: str) -> Iterator[str]:
        """A plain function that returns an iterator, and refuses early."""
        if not name:
            raise ValueError(name)
        return iter([name])


@pytest.fixture
def kinds(runtime: Runtime) -> Iterator[Any]:
    """A patched class with a function of each sort, in a module."""
    module: Any = types.ModuleType(MODULE)
    module.Kinds = type("Kinds", (), {name: value for name, value in vars(Kinds).items() if name[0] != "_"})
    module.Lower = type("Lower", (module.Kinds,), {})
    sys.modules[MODULE] = module
    read = [
        ("pieces", CallStyle.GENERATOR),
        ("pieces_later", CallStyle.ASYNC_GENERATOR),
        ("eager", CallStyle.GENERATOR),
    ]
    patches = Patches(
        [
            *(ToolTarget(MODULE, f"Kinds.{name}", ADAPTER) for name in ("fixed", "named")),
            *(RunTarget(MODULE, f"Kinds.{name}", lambda *_: RunInfo(), style) for name, style in read),
        ]
    )
    patches.install()
    yield module
    active_runtime.put(runtime)
    assert patches.restore() == []
    assert {name: vars(module.Kinds)[name] for name in vars(Kinds) if name[0] != "_"}.items() <= vars(Kinds).items()
    del sys.modules[MODULE]


def test_descriptors_stay_descriptors(kinds: Any) -> None:
    """Static and class methods are called on the class, on an object and on a subclass, and the guard counts them."""
    assert all(is_ours(vars(kinds.Kinds)[name]) for name in ("fixed", "named", "pieces", "eager"))
    with loopguard.turn():
        assert kinds.Kinds.fixed("look", 1) == kinds.Lower().fixed("look", 1) == "look of 1"
        assert kinds.Kinds().named("look", 2) == "look of 2 in Kinds"
        assert kinds.Lower.named("look", 2) == "look of 2 in Lower"
        assert kinds.Lower.fixed("look", 1) == "look of 1"


@pytest.mark.parametrize("on", [True, False])
async def test_generators_are_generator_functions(kinds: Any, runtime: Runtime, on: bool) -> None:
    """A run that is a generator is one with and without a runtime, and a function that returns an iterator stays so."""
    active_runtime.put(runtime if on else None)
    item = kinds.Lower()
    assert inspect.isgeneratorfunction(item.pieces)
    assert inspect.isasyncgenfunction(item.pieces_later)
    assert not inspect.isgeneratorfunction(item.eager)
    assert list(item.pieces("a")) == list(item.eager("a")) == ["a"]
    assert [piece async for piece in item.pieces_later("a")] == ["a"]
    with pytest.raises(ValueError, match=r"^$"):
        next(iter(item.eager("")))
    with pytest.raises(TypeError, match=r"pieces\(\) missing 1 required positional argument: 'name'"):
        next(item.pieces())


def test_without_arguments_the_function_itself_complains(framework: Any, runtime: Runtime) -> None:
    """The error of a method that is called without its object is Python's own."""
    Patches(TARGETS).install()
    with pytest.raises(TypeError, match=r"Executor.run\(\) missing 3 required positional arguments: 'self', 'name'"):
        framework.Executor.run()


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_another_librarys_wrapper_gets_its_instance(framework: Any, runtime: Runtime, first: str) -> None:
    """A wrapper of wrapt below or above ours sees the object, and both are called once."""
    patches, seen = Patches(TARGETS[:1]), []

    def theirs(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        seen.append((instance, args))
        return wrapped(*args, **kwargs)

    if first == "ours":
        patches.install()
    wrapt.wrap_function_wrapper(framework, "Executor.run", theirs)
    if first == "theirs":
        patches.install()
    executor = framework.Executor()
    with loopguard.turn():
        assert executor.run("look", 1) == framework.Executor.run(executor, "look", 2)[:-1] + "1"
    assert seen == [(executor, ("look", 1)), (executor, ("look", 2))]


def test_a_wrapper_that_copies_our_attributes_is_not_ours(framework: Any, runtime: Runtime) -> None:
    """``functools.wraps`` copies ``__dict__``. The wrapper is another library's all the same, and stays."""
    patches = Patches(TARGETS[:1])
    patches.install()
    ours = vars(framework.Executor)["run"]

    @functools.wraps(ours)
    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    framework.Executor.run = theirs
    assert not is_ours(theirs)
    assert patches.restore() == [f"{MODULE}:Executor.run"]
    assert vars(framework.Executor)["run"] is theirs


def test_one_frame_of_ours_is_in_a_traceback(framework: Any, runtime: Runtime) -> None:
    """A traceback through a patched function has one line more."""
    Patches(TARGETS[:1]).install()
    with loopguard.turn(), pytest.raises(TypeError) as caught:
        framework.Executor().run("look", 1, 2)
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert len(frames) == 2
    assert frames[1].endswith("wrappers.py")


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


# --- methods that subclasses override ----------------------------------------------------------------------------


class Model:
    """A framework's base class, with a hook of its own."""

    made: ClassVar[list[str]] = []

    def __init_subclass__(cls, *, name: str = "") -> None:
        super().__init_subclass__()
        cls.made.append(name)

    def ask(self) -> str:
        """Ask the model."""
        raise NotImplementedError


class Answers:
    """The method of a model, in a class that is none."""

    def ask(self) -> str:
        """Ask the model."""
        return "an answer"


def asked_twice(original: Any) -> Any:
    """The wrapper of a target that shows that it was passed."""

    def ask(*given: Any) -> str:
        wrapped, _, args = original.bind(given)
        return f"{wrapped(*args)}!"

    return ask


@pytest.mark.parametrize("base", [Model, type("Plain", (), {"ask": Model.ask})], ids=["hooked", "plain"])
def test_a_method_is_replaced_in_each_class_that_overrides_it(framework: Any, runtime: Runtime, base: Any) -> None:
    """In those that are there, in those that come, and in those that have it from elsewhere; afterwards in none."""
    framework.Model, own = base, vars(base).get("__init_subclass__")
    old = type("Old", (base,), {"ask": Answers.ask})
    patches = Patches([OverrideTarget(MODULE, "Model.ask", asked_twice)])
    patches.install()
    new, mixed = type("New", (base,), {"ask": Answers.ask}), type("Mixed", (Answers, base), {})
    heir, other = type("Heir", (new,), {}), type("Other", (new,), {"ask": lambda self: super(other, self).ask()})
    assert [one().ask() for one in (old, new, mixed, heir)] == ["an answer!"] * 4
    assert other().ask() == "an answer!!"
    assert not any("ask" in vars(one) for one in (heir,))
    assert not is_ours(vars(base)["ask"])
    patches.install()
    assert old().ask() == "an answer!"
    assert patches.restore() == []
    assert vars(base).get("__init_subclass__") is own
    assert [vars(one)["ask"] for one in (old, new, mixed)] == [Answers.ask] * 3
    assert type("After", (base,), {"ask": Answers.ask})().ask() == "an answer"


def test_the_hook_of_a_base_class_runs_as_before(framework: Any, runtime: Runtime) -> None:
    """With its keywords, and once for each class."""
    framework.Model = Model
    patches = Patches([OverrideTarget(MODULE, "Model.ask", asked_twice)])
    patches.install()
    Model.made.clear()

    class Named(Model, name="named"):
        ask = Answers.ask

    patches.restore()
    assert Model.made == ["named"]
