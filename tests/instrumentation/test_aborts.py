"""The error of a loop on its way through a framework; other exceptions pass with their identity."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.aborts import LoopAbort, carried, grouped
from otel_loopguard.instrumentation.agent_run import AgentRun, run_plain
from otel_loopguard.instrumentation.targets import RunTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable

Group: Any = getattr(builtins, "BaseExceptionGroup", None)
if Group is None:
    Group = pytest.importorskip("exceptiongroup").BaseExceptionGroup

RUN = RunTarget("m", "f", lambda instance, args, kwargs: RunInfo())
LOOP = ToolLoopError("over", tool_name="look", mode="m", repeats=1, limit=1)


class RaisingError(Exception):
    """Its ``exceptions`` cannot be read."""

    @property
    def exceptions(self) -> Any:
        """Raise, as a lazy attribute may."""
        raise RuntimeError("not now")


class Lies(Group):  # type: ignore[misc]  # one of two classes
    """A group whose ``exceptions`` are its own code."""

    @property
    def exceptions(self) -> Any:
        """Raise, as a lazy attribute may."""
        raise RuntimeError("not now")


def circular() -> Exception:
    """An exception that says that it holds itself."""
    error = Exception()
    error.exceptions = (error,)  # type: ignore[attr-defined]  # any object may have it
    return error


def nested(depth: int, error: BaseException) -> BaseException:
    """A group in a group in a group."""
    for _ in range(depth):
        error = Group("group", [error])
    return error


@pytest.mark.parametrize(
    "make",
    [
        RaisingError,
        circular,
        lambda: Lies("group", [ValueError()]),
        lambda: nested(3_000, ValueError()),
        lambda: Group("group", [ValueError()] * 20_000),
    ],
    ids=["raises", "circular", "lies", "deep", "wide"],
)
def test_an_exception_leaves_a_run_as_it_is(make: Callable[[], BaseException]) -> None:
    """Whatever an exception says it holds, the caller of the run gets that very exception."""
    error = make()

    def run() -> None:
        raise error

    with guarded() as recording:
        assert recording.runtime is not None
        with pytest.raises(type(error)) as caught:
            run_plain(AgentRun(recording.runtime, RUN, None, (), {}), run)
        assert caught.value is error
        assert grouped(error) is None


def test_a_carrier_is_found_in_groups_of_any_depth() -> None:
    """A task group wraps the carrier, once for each group around it."""
    carrier = LoopAbort(LOOP)
    assert carried(carrier) is LOOP
    assert carried(nested(3_000, carrier)) is LOOP
    assert carried(Group("group", [ValueError(), Group("inner", [KeyError(), carrier])])) is LOOP
    assert carried(Lies("group", [carrier])) is LOOP


def test_an_error_is_unwrapped_only_where_it_is_alone() -> None:
    """Other members of a group would be lost."""
    assert grouped(nested(3_000, LOOP)) is LOOP
    assert grouped(Group("group", [LOOP, ValueError()])) is None
    assert grouped(LOOP) is None
    assert grouped(None) is None
