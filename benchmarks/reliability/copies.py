"""Copy, pickle and inspect every function that is patched, and compare with the same function before."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import types
import typing
import weakref
from typing import TYPE_CHECKING, Any

import cloudpickle
import wrapt

from benchmarks.reliability.result import Row
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TITLE = "Copies"
ABOUT = """Every function that is patched is copied, pickled, referred to and inspected: as an attribute of its
class or module, as a method of an instance, and under a subclass. *Broken*: an operation that works without the
guard fails with it, or gives another answer. `inspect.getfullargspec` is not tried: it looks through no decorator."""
EVERY_ENVIRONMENT = True


class Patched(typing.NamedTuple):
    """A place that a framework's targets name."""

    owner: Any
    name: str

    @property
    def function(self) -> Any:
        """The attribute, as a program reads it."""
        return getattr(self.owner, self.name)

    @property
    def method(self) -> Any:
        """The method of an instance; the function of a module."""
        return getattr(object.__new__(self.owner), self.name) if inspect.isclass(self.owner) else self.function

    def __str__(self) -> str:
        owner = getattr(self.owner, "__qualname__", self.owner.__name__)
        return f"{owner}.{self.name}"


def _equal_methods(at: Patched) -> bool:
    if not inspect.isclass(at.owner):
        return True
    instance = object.__new__(at.owner)
    return bool(getattr(instance, at.name) == getattr(instance, at.name))


def _same(copied: Any, original: Any) -> bool:
    return bool(getattr(copied, "__func__", copied) == getattr(original, "__func__", original))


OPERATIONS: dict[str, Callable[[Patched], Any]] = {
    "copy": lambda at: _same(copy.copy(at.function), at.function),
    "deepcopy": lambda at: _same(copy.deepcopy(at.function), at.function),
    "copy of a method": lambda at: _same(copy.copy(at.method), at.method),
    "deepcopy of a method": lambda at: _same(copy.deepcopy(at.method), at.method),
    "deepcopy in an object": lambda at: bool(copy.deepcopy(types.SimpleNamespace(run=at.method))),
    "pickle": lambda at: _same(pickle.loads(pickle.dumps(at.function)), at.function),
    "cloudpickle": lambda at: _same(cloudpickle.loads(cloudpickle.dumps(at.function)), at.function),
    "cloudpickle of a closure": lambda at: bool(cloudpickle.dumps(lambda f=at.function: f)),
    "WeakMethod": lambda at: _weak_method_works(at.method) if inspect.ismethod(at.method) else True,
    "weakref": lambda at: weakref.ref(at.function)() is at.function,
    "identity": lambda at: at.function is at.function,
    "identity under a subclass": lambda at: (
        getattr(type("Sub", (at.owner,), {}), at.name) is at.function if _is_plain_class(at.owner) else True
    ),
    "equality of methods": _equal_methods,
    "hash": lambda at: hash(at.function) == hash(at.function),
    "signature": lambda at: str(inspect.signature(at.function)),
    "signature of a method": lambda at: str(inspect.signature(at.method)),
    "type hints": lambda at: sorted(typing.get_type_hints(at.function)),
    "evaluated signature": lambda at: str(inspect.signature(at.function, eval_str=True)),
    "source": lambda at: inspect.getsource(at.function),
    "docstring": lambda at: inspect.getdoc(at.function),
    "name": lambda at: (at.function.__name__, at.function.__qualname__, at.function.__module__),
    "is a function": lambda at: inspect.isfunction(at.function),
    "is a coroutine function": lambda at: inspect.iscoroutinefunction(at.function),
    "is an async generator function": lambda at: inspect.isasyncgenfunction(at.function),
    "is a generator function": lambda at: inspect.isgeneratorfunction(at.function),
    "is a method": lambda at: inspect.ismethod(at.method),
    "type": lambda at: type(at.function).__name__,
    "is abstract": lambda at: getattr(at.function, "__isabstractmethod__", False),
}


def measure(seed: int, scale: float) -> Iterator[Row]:  # noqa: ARG001 - there is nothing to draw
    """Try each operation on each function, without and with the guard."""
    for framework in FRAMEWORKS:
        places = list(_places(framework.targets))
        if not places:
            continue
        without = _answers(places)
        with guarded():
            answers = _answers(places)
        broken = [f"{what} of {place}" for place, what in _broken(without, answers)]
        tried = sum(not isinstance(answer, Exception) for answer in without.values())
        yield Row(f"{framework.name}: {len(places)} functions", tried, len(broken), "; ".join(broken[:5]))


def _places(targets: Any) -> Iterator[Patched]:
    for target in targets:
        try:
            module = importlib.import_module(target.module)
            owner, name, _ = wrapt.resolve_path(module, target.path)
        except (ImportError, AttributeError):  # another version of the framework, or none
            continue
        yield Patched(owner, name)


def _answers(places: list[Patched]) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for place in places:
        for what, operation in OPERATIONS.items():
            try:
                answer = operation(place)
            except Exception as error:  # noqa: BLE001 - the error is the answer
                answer = error
            found[str(place), what] = answer
    return found


def _broken(without: dict[tuple[str, str], Any], answers: dict[tuple[str, str], Any]) -> list[tuple[str, str]]:
    """Return the operations that work without the guard, and now fail or give another answer."""
    return [key for key, answer in without.items() if not isinstance(answer, Exception) and answers[key] != answer]


def _weak_method_works(method: Any) -> bool:
    return bool(weakref.WeakMethod(method)() == method)


def _is_plain_class(owner: Any) -> bool:
    return inspect.isclass(owner) and type(owner) is type
