"""Tools can be copied, pickled and sent to workers, and overrides are found, while the guard is on."""

from __future__ import annotations

import copy
import functools
import pickle
import weakref
from typing import Any

import cloudpickle
import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool

from otel_loopguard.testing import guarded


class Adder(BaseTool):
    """A tool as a class, so that its objects can be pickled."""

    name: str = "add"
    description: str = "Add one."

    def _run(self, number: int) -> int:
        return number + 1


class Step:
    """A program's object that keeps the method of a tool."""

    def __init__(self, made: Any) -> None:
        self.run = made.run


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
}


@pytest.mark.parametrize("name", COPIES)
def test_an_object_that_keeps_a_tools_method_can_be_copied(name: str) -> None:
    """The copy runs the tool."""
    with guarded() as recording:
        assert COPIES[name](Step(Adder())).run({"number": 1}) == 2
        assert COPIES[name](functools.partial(Adder().run, {"number": 1}))() == 2
        assert recording.outcomes == ["executed", "executed"]


def test_a_tool_of_a_tool_can_be_copied() -> None:
    """``model_copy(deep=True)`` copies the method of another tool."""

    @tool
    def add(number: int) -> int:
        """Add one."""
        return number + 1

    with guarded():
        outer = StructuredTool(name="outer", description="The other one.", func=add.run, args_schema=add.args_schema)
        assert outer.model_copy(deep=True).func.__self__.name == "add"


def test_methods_are_found_and_referenced() -> None:
    """Libraries look for overrides by identity, and keep methods weakly."""
    with guarded():
        made = Adder()
        assert type(made).arun is BaseTool.arun
        assert weakref.WeakMethod(made.run)() == made.run
