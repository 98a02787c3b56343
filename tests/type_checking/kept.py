"""A program whose types are all known: a decorated function keeps its signature, a call has the type of its function.

Type checkers read it; it is never executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import assert_type

import otel_loopguard as loopguard
from otel_loopguard import Action, Detector, Kind, Mode, Policy, Rule, ToolContract, Trip
from otel_loopguard.testing import ScriptedAgent, assert_trips, guarded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from otel_loopguard.testing import Recording


@loopguard.tool
def plain(customer: str, *, limit: int = 5) -> list[int]:
    return [limit]


@loopguard.tool(name="find", kind="poll", volatile=["nonce"], modes={"cycle": {"block": 4}})
async def awaited(customer: str) -> int:
    return 1


@loopguard.tool(kind=Kind.READ, cap=None)
def stream(customer: str) -> Iterator[int]:
    yield 1


@loopguard.tool(action="nudge")
async def async_stream(customer: str) -> AsyncIterator[int]:
    yield 1


class Tools:
    @loopguard.tool
    def method(self, customer: str) -> bool:
        """Search by a method."""
        return True

    @staticmethod
    @loopguard.tool
    def of_class(customer: str) -> bytes:
        """Search by a static method."""
        return b""


async def decorated() -> None:
    assert_type(plain("ada", limit=3), list[int])
    assert_type(await awaited("ada"), int)
    assert_type(stream("ada"), "Iterator[int]")
    assert_type(async_stream("ada"), "AsyncIterator[int]")
    assert_type(Tools().method("ada"), bool)
    assert_type(Tools.of_class("ada"), bytes)


async def called(named: Callable[..., float] | None, unknown: Any) -> None:
    assert_type(loopguard.call("plain", "{}", plain), "list[int] | str")
    assert_type(await loopguard.call("awaited", {}, awaited), "int | str")
    assert_type(loopguard.call("stream", {}, stream), "Iterator[int]")
    assert_type(loopguard.call("async_stream", {}, async_stream), "AsyncIterator[int]")
    assert_type(loopguard.call("named", {}, named, known_tools=["named"]), "float | str")
    assert_type(loopguard.call("missing", {}, None), str)
    print(loopguard.call("unknown", {}, unknown).anything)


def policies(row: Detector, limits: dict[str, Rule], kind: Kind | None) -> None:
    policy = Policy(
        action="observe",
        order=[Mode.CYCLE, "ping_pong"],
        modes={"generic_repeat": Rule(block=4, block_after_reads=6), "cycle": {"max_period": 8, "action": "nudge"}},
        tools={
            "read_*": {"kind": "read", "modes": {"generic_repeat": {"abort": 9}}},
            "get_*": ToolContract(kind=kind, modes=limits),
            "call_*": {"route": {"tool": "name", "args": ["first", "second"]}},
        },
        sentences={"generic_repeat": {"nudge": "Again."}, "cycle": "In circles."},
        detectors=[row, lambda history, record, rule: Trip("own", record.tool, 1, 0, Action.BLOCK)],
        on_trip=lambda trip: Action.OBSERVE if trip.count > 3 else None,
    )
    Policy(modes=limits)
    Policy(modes={"mode_of_mine": {"nudge": 200}, "other": Rule(pages=3)}, detectors=(row,))
    assert_type(policy.action, Action)
    assert_type(policy.tools["read_*"].kind, "Kind | None")


def test_of_a_user(loopguard: Recording) -> None:
    ScriptedAgent({"plain": lambda customer: "none"}, [("plain", {"customer": "ada"})]).run()
    assert_type(loopguard.outcomes, list[str])
    assert_trips(loopguard, "generic_repeat", action="block", tool="plain", times=1)
    with guarded(Policy(action="nudge")) as recording:
        assert_type(recording.outcomes, list[str])
