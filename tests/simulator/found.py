"""Every fault that was ever found, as the fewest steps that led to it, or the run in which they came."""

from __future__ import annotations

from tests.simulator.runs import drawn
from tests.simulator.steps import Run, Step


def _stale(how: str, *, before: str = "", after: str = "", count: int = 1_000) -> Run:
    """Read a file twice, have another process write it, and read it again, with a fault before or after the write."""
    read, write = Step(1, "read", 0, how, "a"), Step(3, "write", 1, how, "a")
    faults = [Step(number, "fault", how=fault, count=count) for number, fault in ((2, before), (4, after))]
    steps = (read, read._replace(number=5), faults[0], write, faults[1], read._replace(number=6))
    return Run(1, "all faults", tuple(step for step in steps if step.what != "fault" or step.how))


def _said(*, before: str = "", after: str = "", how: str = "thread", stop: int = 0, on: str = "") -> Run:
    """Say a message from another process, with a fault before or after."""
    steps = [Step(1, "read", 0, "thread", "a"), Step(3, "say", 1, how, on, stop), Step(5, "read", 0, "thread", "b")]
    faults = [Step(number, "fault", how=fault, count=2) for number, fault in ((2, before), (4, after)) if fault]
    return Run(1, "all faults", tuple(sorted([*steps, *faults])))


_LOOPED = tuple(Step(number, "ask", 0) for number in range(1, 14))
_CALL = Step(1, "read", 0, "thread", "a")

FOUND = {
    # A process refused what another one had changed.
    "stale: sync code on an event loop": _stale("loop"),
    "stale: the store is away before the write": _stale("thread", before="refused"),
    "stale: the store is away after the write": _stale("thread", after="refused"),
    "stale: the store is slow after the write": _stale("thread", after="timed out", count=3),
    "stale: the store comes back empty after the write": _stale("thread", after="empty"),
    "stale: a replica without the write takes over": _stale("thread", after="failover", count=2),
    # Agents with one opening were taken for one, and a job that was started again for the one before.
    "equal openings": drawn(2, "gateway"),
    "equal openings, while the store fails": drawn(2, "gateway with faults"),
    "a job is started again": Run(4, "gateway", (*_LOOPED, Step(20, "restart", 0), *_LOOPED)),
    # Messages of the user were lost, or read again.
    "said: the store is away": _said(before="refused"),
    "said: the answer is lost": _said(before="timed out"),
    "said: the store comes back empty": _said(after="empty"),
    "said: a replica without it takes over": _said(after="failover"),
    "said: a stop on an event loop while the store is away": _said(before="refused", how="loop", stop=1),
    "said: by a process that makes no calls, and the store comes back empty": Run(
        1, "all faults", (*_said(on="held").steps, Step(6, "fault", how="empty"), Step(7, "say", 1, "thread", "held"))
    ),
    # Found by the simulator.
    "a turn is replaced while it has late events": Run(
        1,
        "all faults",
        (
            _CALL,
            Step(2, "fault", 0, "cut", count=4),
            _CALL._replace(number=3, on="b"),
            Step(4, "restart", how="at once"),
            Step(5, "read", 1, "thread", "a"),
            Step(6, "wait", count=60),
        ),
    ),
    "said: to the turn before the next one": Run(
        20, "well", (_CALL, Step(23, "say", 1, "loop", "", 1), Step(24, "restart"))
    ),
    "said: to the turn before the next one, and the store comes back empty": Run(
        4246650806,
        "all faults",
        (
            Step(22, "read", 0, "observed", "all"),
            Step(23, "restart"),
            Step(25, "say", 2, "loop", "", 1),
            Step(26, "fault", how="empty"),
        ),
    ),
    "said: on an event loop before the first call": Run(33, "well", (Step(39, "say", 1, "loop"),)),
    "said: read again by sync code on an event loop": Run(
        19,
        "well",
        (
            Step(14, "say", 0, "thread", "held"),
            Step(16, "read", 0, "loop", "a"),
            Step(25, "write", 1, "thread", "a"),
            Step(27, "read", 0, "loop", "a"),
        ),
    ),
    "a server that has lost a turn has the one before": Run(
        501387,
        "failover",
        (
            Step(21, "read", 0, "task", "a"),
            Step(22, "read", 1, "observed", "b"),
            Step(23, "restart"),
            Step(26, "read", 0, "thread", "a"),
            Step(27, "read", 2, "task", "b"),
            Step(28, "fault", 1, "failover", count=6),
            Step(30, "say", 2, "thread"),
            Step(36, "read", 0, "task", "a", beside=(Step(1036, "write", 1, "task", "a"),)),
            Step(37, "read", 0, "thread", "a"),
        ),
    ),
    "an agent that was forked from one is taken for another one with numbered calls": Run(
        778992849,
        "gateway with faults",
        (
            Step(1, "ask", 2, count=1, beside=(Step(1, "ask", 3, count=1),)),
            Step(13, "fork", 3, count=1),
            Step(15, "ask", 4, beside=(Step(15, "ask", 3, count=1), Step(15, "ask", 2), Step(15, "ask", 3, "lost", 1))),
            Step(16, "ask", 4),
        ),
    ),
    "a message is said while no turn is known, and the first that is found is replaced": drawn(2154237939),
}
