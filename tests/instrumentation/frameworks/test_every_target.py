"""Every patched function can be copied, pickled, referenced and inspected as without a patch.

The matrix runs this with each framework that it installs.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
import warnings
import weakref
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

import tests.quiet_vendors  # noqa: F401 - before a framework
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.patching import is_ours
from otel_loopguard.instrumentation.targets import OverrideTarget
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.targets import Target

pytestmark = pytest.mark.filterwarnings("ignore")


def attribute(module: str, path: str) -> Any:
    """The function itself, not bound."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the framework itself, at its import
        found: Any = import_module(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    return found


def is_there(module: str, path: str) -> bool:
    """True if the installed version of the framework has the target."""
    if find_spec(module.partition(".")[0]) is None:
        return False
    try:
        return attribute(module, path) is not None
    except (ImportError, AttributeError):
        return False


def places(target: Target) -> list[tuple[str, str]]:
    """The functions that a target has replaced: one, or those of the framework's own subclasses."""
    if not isinstance(target, OverrideTarget) or not is_there(target.module, target.path):
        return [(target.module, target.path)]
    owner, _, name = target.path.rpartition(".")
    below = [attribute(target.module, owner)]
    for one in below:
        below += type.__subclasses__(one)
    return [(one.__module__, f"{one.__qualname__}.{name}") for one in below[1:] if name in vars(one)]


PLACES = [
    place
    for place in dict.fromkeys(place for one in FRAMEWORKS for target in one.targets for place in places(target))
    if is_there(*place)
]


def outcome(function: Callable[[], Any]) -> Any:
    """The result of a question, or the type of its exception."""
    try:
        return function()
    except Exception as error:
        return type(error)


def facts(module: str, path: str) -> dict[str, Any]:
    """Everything that programs ask a function. Identity is compared here, so the facts are equal if all is well."""
    function = attribute(module, path)
    inner = inspect.unwrap(function)
    questions: dict[str, Callable[[], Any]] = {
        "type": lambda: type(function),
        "names": lambda: (function.__name__, function.__qualname__, function.__module__),
        "docstring": lambda: inspect.getdoc(function),
        "annotations": lambda: function.__annotations__,
        "hints": lambda: typing.get_type_hints(function),
        "signature": lambda: inspect.signature(function),
        "evaluated signature": lambda: inspect.signature(function, eval_str=True),
        "source": lambda: inspect.getsource(function),
        "file": lambda: (inspect.getsourcefile(inner), inspect.getmodule(function)),
        "coroutine function": lambda: inspect.iscoroutinefunction(function),
        "generator function": lambda: inspect.isgeneratorfunction(function),
        "async generator function": lambda: inspect.isasyncgenfunction(function),
        "routine": lambda: (inspect.isfunction(function), inspect.isroutine(function), callable(function)),
        "abstract": lambda: getattr(function, "__isabstractmethod__", False),
        "copy": lambda: copy.copy(function) is function,
        "deepcopy": lambda: copy.deepcopy([function])[0] is function,
        "pickle": lambda: pickle.loads(pickle.dumps(function)) is function,
        "cloudpickle": lambda: pickle.loads(cloudpickle.dumps(function)) is function,
        "weak reference": lambda: weakref.ref(function)() is function,
    }
    owner_path, _, name = path.rpartition(".")
    if owner_path:
        owner = attribute(module, owner_path)
        sub = type("Sub", (owner,), {})
        sub.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
        item = object.__new__(sub)
        bound = getattr(item, name)
        questions |= {
            "bound": lambda: (type(bound), bound.__self__ is item, bound.__func__ is function),
            "on the class": lambda: getattr(owner, name) is function,
            "overridden": lambda: getattr(sub, name) is getattr(owner, name),
            "of super": lambda: getattr(super(sub, item), name) == bound,
            "equal": lambda: bound == getattr(item, name) and hash(bound) == hash(getattr(item, name)),
            "weak method": lambda: weakref.WeakMethod(bound)() == bound,
            "copied method": lambda: copy.copy(bound) == bound,
            "deep copied method": lambda: type(copy.deepcopy(MethodType(function, "text"))),
            "signature of the method": lambda: inspect.signature(bound),
            "hints of the method": lambda: typing.get_type_hints(bound),
            "coroutine method": lambda: inspect.iscoroutinefunction(bound),
        }
    return {question: outcome(answer) for question, answer in questions.items()}


@pytest.mark.parametrize("place", PLACES, ids=":".join)
def test_a_patched_function_is_what_it_was(place: tuple[str, str]) -> None:
    """Each fact about the function is the same with and without our patch, and it is the same object afterwards."""
    original, before = attribute(*place), facts(*place)
    with guarded():
        patched = attribute(*place)
        assert is_ours(patched)
        after = facts(*place)
    assert after == before
    assert type(getattr(patched, "__func__", patched)) is FunctionType  # a static method's function
    assert attribute(*place) is original


def test_targets_are_installed() -> None:
    """The test above has something to test: thread pools are always there."""
    assert ("concurrent.futures.thread", "ThreadPoolExecutor.submit") in PLACES
