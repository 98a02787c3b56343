"""Work that is abandoned during a call is closed by the garbage collector, at any line."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap

import pytest

import otel_loopguard
from otel_loopguard.instrumentation import turn_api
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import bind, current_scope, unbind

DROPPED = {
    "generator": """
        @otel_loopguard.tool
        def stream(n):
            yield n
            yield n
        def begun(n):
            work = stream(n)
            next(work)
            return work
    """,
    "coroutine": """
        class Forever:
            def __await__(self): yield
        @otel_loopguard.tool
        async def fetch(n): await Forever()
        def begun(n):
            work = fetch(n)
            work.send(None)
            return work
    """,
    "coroutine that ends as if nothing were": """
        class Forever:
            def __await__(self): yield
        @otel_loopguard.tool
        async def fetch(n):
            try: await Forever()
            except BaseException: return otel_loopguard.call("get", {"n": n}, get.__wrapped__)
        def begun(n):
            work = fetch(n)
            work.send(None)
            return work
    """,
    "turn": """
        def work_of(n):
            with otel_loopguard.turn("other"):
                yield get(n)
                yield
        def begun(n):
            work = work_of(n)
            next(work)
            return work
    """,
}
PROGRAM = """
import gc, random, otel_loopguard
@otel_loopguard.tool
def get(n): return {"n": [n]}
class Box: pass
BEGUN
def drop(n):
    box = Box()
    box.itself, box.work = box, begun(n)
gc.set_threshold(53, 7, 7)
for _ in range(60):
    with otel_loopguard.turn("c"):
        for n in range(20):
            drop(n)
            get(n)
            junk = [[] for _ in range(random.randrange(100))]
print("fine")
"""
MESSAGES_FROM_A_SIGNAL = """
import signal, otel_loopguard
@otel_loopguard.tool
def get(n): return n
accepted = 0
def on_alarm(*_):
    global accepted
    accepted += bool(otel_loopguard.say("hello", conversation_id="c"))
    signal.setitimer(signal.ITIMER_REAL, .0005)
with otel_loopguard.turn("c"): get(0)
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, .0005)
for _ in range(400):
    with otel_loopguard.turn("c"):
        for n in range(20): get(n)
signal.signal(signal.SIGALRM, signal.SIG_IGN)  # the last handler may have set the timer again
print("fine" if accepted > 10 else accepted)
"""


def _ran(program: str) -> tuple[int, str]:
    """Run the program in a separate process, because it may hang or crash."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.strip() or done.stderr


@pytest.mark.parametrize("what", DROPPED)
def test_what_is_collected_under_a_lock_hangs_nothing(what: str) -> None:
    assert _ran(PROGRAM.replace("BEGUN", textwrap.dedent(DROPPED[what]))) == (0, "fine")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_signal_handler_says_a_word() -> None:
    assert _ran(MESSAGES_FROM_A_SIGNAL) == (0, "fine")


@otel_loopguard.tool
async def wait_for_ever(n: int) -> None:
    """Wait without end."""
    await asyncio.Event().wait()


@otel_loopguard.tool
def count_to(n: int) -> object:
    """Yield numbers without end."""
    yield from range(n)


@otel_loopguard.tool
def get(n: int) -> str:
    """Return an equal result each time."""
    return "same"


def _left_behind(*, in_a_turn: bool) -> None:
    """The garbage collector ends the task of an event loop that was closed during a call."""

    async def work() -> None:
        if in_a_turn:
            async with turn_api.turn("A"):
                await wait_for_ever(1)
        await wait_for_ever(1)

    loop = asyncio.new_event_loop()
    loop.create_task(work())  # noqa: RUF006 - is to be thrown away
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()


@pytest.mark.parametrize("in_a_turn", [True, False])
def test_what_is_collected_leaves_the_running_turn_alone(
    in_a_turn: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gc.disable()
    try:
        with guarded() as recording:
            _left_behind(in_a_turn=in_a_turn)
            with otel_loopguard.turn("B") as turn:
                get(1)
                get(1)
                here = current_scope()
                gc.collect()
                assert current_scope() is here
                assert "tool_loop_detected" in get(1)
            assert turn.calls == 2
            assert sorted(recording.outcomes) == ["blocked", "cancelled", "executed", "nudged"]
            assert recording.runtime is not None
            assert recording.runtime.guard.live == (0 if in_a_turn else 1)
    finally:
        gc.enable()
    assert "Failed to detach context" not in caplog.text


def test_a_generator_that_is_closed_by_hand_ends_at_once() -> None:
    with guarded() as recording:
        numbers = count_to(3)
        next(numbers)
        numbers.close()
        assert recording.outcomes == ["cancelled"]


def test_a_scope_is_taken_off_only_where_it_is_on() -> None:
    with guarded(), otel_loopguard.turn("A"):
        ours = current_scope()
        token = bind(None)
        unbind(token, None)
        assert current_scope() is ours
        with otel_loopguard.turn("B"):
            theirs = current_scope()
            unbind(token, None, thrown_away=True)
            assert current_scope() is theirs
    assert current_scope() is None


def test_what_is_put_off_is_ended_at_the_next_call() -> None:
    gc.disable()
    try:
        with guarded() as recording:
            cycle: list[object] = [count_to(3)]
            next(cycle[0])  # type: ignore[call-overload]
            cycle.append(cycle)
            del cycle
            gc.collect()
            assert recording.outcomes == []
            get(1)
            assert recording.outcomes == ["cancelled", "executed"]
    finally:
        gc.enable()
