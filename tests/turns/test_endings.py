"""The end of the last turn, as the code that made it asks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Ledger
from otel_loopguard.instrumentation.agent_run import AgentRun, async_generator_of_run, run_async, run_plain
from otel_loopguard.instrumentation.targets import RunTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from otel_loopguard.testing import Recording


def opened(recording: Recording, **info: Any) -> AgentRun:
    """Open a run of a framework."""
    assert recording.runtime is not None
    target = RunTarget("m", "f", lambda run, args, kwargs: RunInfo(**info))
    return AgentRun(recording.runtime, target, None, (), {})


def ended_as() -> str | None:
    """How the last turn ended."""
    last = loopguard.last_turn()
    return None if last is None else last.ended_as


def alone(ask: Callable[[], Any]) -> Any:
    """Run a function in a context of its own, in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(Context().run, ask).result()


def test_a_run_of_a_framework_is_the_last_turn_once_it_is_over() -> None:
    """Inside of it the last turn goes on; the next run takes its place."""

    def asks() -> None:
        with guarded() as recording:
            assert run_plain(opened(recording, conversation_id="c"), ended_as) is None
            last = loopguard.last_turn()
            assert last is not None
            assert last == (last.id, "answered", 0, "c", Ledger())
            with pytest.raises(ZeroDivisionError):
                run_plain(opened(recording), lambda: 1 / 0)
            assert ended_as() == "failed"

    alone(asks)


def test_no_other_thread_or_task_sees_a_turn() -> None:
    """A server's tasks and threads are of different users."""

    async def serve(recording: Recording) -> list[str | None]:
        async def user(error: type[BaseException] | None) -> str | None:
            async def work() -> None:
                await asyncio.sleep(0)
                if error is not None:
                    raise error

            with contextlib.suppress(Exception):
                await run_async(opened(recording), work)
            return ended_as()

        users = await asyncio.gather(user(None), user(ValueError), user(None))
        return [*users, ended_as()]

    with guarded() as recording:
        assert alone(lambda: asyncio.run(serve(recording))) == ["answered", "failed", "answered", None]
        assert alone(ended_as) is None


def test_a_script_asks_after_asyncio_run() -> None:
    """In the main thread, outside of an event loop, the context of the run is gone."""

    async def work() -> None:
        """Do nothing."""

    assert threading.current_thread() is threading.main_thread()
    with guarded() as recording:
        asyncio.run(run_async(opened(recording), work))
        assert ended_as() == "answered"


async def test_a_stream_that_its_reader_closes_is_cancelled_and_one_that_is_read_is_answered() -> None:
    """The end is known where the run was begun."""
    with guarded() as recording:

        async def chunks() -> AsyncIterator[int]:
            yield 1
            yield 2

        stream = async_generator_of_run(lambda args, kwargs: (opened(recording), chunks))
        async for _ in stream():
            assert ended_as() is None
        assert ended_as() == "answered"
        left = stream()
        await left.__anext__()
        await left.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert ended_as() == "cancelled"


async def test_a_cancelled_task_has_a_cancelled_turn() -> None:
    """Its exception goes on as it is."""
    ends: list[str | None] = []

    async def user(recording: Recording) -> None:
        try:
            await run_async(opened(recording), lambda: asyncio.sleep(60))
        finally:
            ends.append(ended_as())

    with guarded() as recording:
        task = asyncio.create_task(user(recording))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ends == ["cancelled"]


def test_a_failed_run_ends_and_ends_again_when_it_is_resumed() -> None:
    """Each run is told; an interrupted one goes on, until a new message of its conversation takes its place."""
    ended: list[loopguard.EndedTurn] = []
    with guarded(loopguard.Policy(on_end=ended.append)) as recording:
        with pytest.raises(ZeroDivisionError):
            run_plain(opened(recording, conversation_id="c"), lambda: 1 / 0)
        run_plain(opened(recording, conversation_id="c", resumes=True), lambda: None)
        assert [one.ended_as for one in ended] == ["failed", "answered"]
        assert ended[0].id == ended[1].id

        interrupted = opened(recording, conversation_id="c")
        with interrupted:
            interrupted._unfinished = True
        assert len(ended) == 2
        run_plain(opened(recording, conversation_id="c"), lambda: None)
        assert [one.ended_as for one in ended[2:]] == ["cancelled", "answered"]


def test_a_block_tells_its_end_wherever_it_is_asked() -> None:
    """The block's own turn is asked, so no thread or task matters; a group with the guard's error alone is that."""
    error = loopguard.ToolLoopError("a loop", tool_name="t", mode="m", repeats=3, limit=3, turn_id="1")
    with guarded():
        with contextlib.suppress(loopguard.ToolLoopError), loopguard.turn("c") as turn:
            assert turn.ended_as is None
            raise error
        assert turn.ended_as == "aborted"
        assert alone(lambda: turn.ended_as) == "aborted"
