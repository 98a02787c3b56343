"""Judge the calls of coding agents: each agent of a session is a turn, from the user's message to the answer."""

from __future__ import annotations

import base64
from asyncio import CancelledError
from collections import OrderedDict, deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import LoopGuardError, RunStopped
from otel_loopguard.hooks.events import (
    After,
    Answer,
    Before,
    Choosing,
    MessageOver,
    Place,
    Prompt,
    SessionOver,
    Stopping,
)
from otel_loopguard.hooks.programs import programs
from otel_loopguard.instrumentation.call import GuardedCall
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.hooks.events import Event
    from otel_loopguard.hooks.programs.program import Program
    from otel_loopguard.turns.runs import OpenRun
    from otel_loopguard.turns.scope import Scope

_MOST_AGENTS: Final = 1_000
_MOST_OPEN: Final = 1_000
"""Calls of one agent that have begun, and of which no end was told."""
_MOST_OF_MESSAGE: Final = 16
"""Calls of one message of the model. After more without an end, this version of the program does not tell it."""
_NOTHING: Final = Answer()
_STOP_HOOK: Final = "stop_hook"
"""The tool whose calls are an agent's answers that go to a hook again: a hook that never lets go is a loop, too."""
_SAME_ANSWER: Final = "[loopguard] A stop hook made the agent go on, and it gave the same answer again."
_LET_GO: Final = "[loopguard] A stop hook made the agent go on, and it gave the same answer each time: it may stop now."


class HookReply(NamedTuple):
    """The answer to a hook."""

    body: dict[str, Any]
    """The JSON that the program reads; empty if it need not read any."""
    ends: bool = False
    """True if the run is to end, whether the program can be told so or not."""


class _Told(NamedTuple):
    """An outcome, and the sentence that goes to the model beside it."""

    outcome: Outcome
    sentence: str = ""


_ADAPTER: Final = ToolAdapter(
    read=lambda instance, args, kwargs: instance,  # noqa: ARG005 - never asked: the call is read from a hook
    answer=lambda reading, content, error: content,  # noqa: ARG005 - the signature of ToolAdapter
    outcome=lambda reading, told: told.outcome,  # noqa: ARG005 - as above
    annotate=lambda reading, told, text: told._replace(sentence=text),  # noqa: ARG005 - as above
    error=lambda: RunStopped,
)


class Judge:
    """Keeps the turns of all agents, and answers hooks. The oldest agents are forgotten first. Threads may share it."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        on_end: Callable[[Place, RunStopped], None] = lambda place, error: None,  # noqa: ARG005 - the signature
        is_elsewhere: Callable[[str], bool] = lambda session: False,  # noqa: ARG005 - the signature
    ) -> None:
        """Make a judge. ``on_end`` gets the error of each run that is to end; ``is_elsewhere`` returns True for a
        session that another process judges.
        """
        self._runtime = runtime
        self._on_end = on_end
        self._is_elsewhere = is_elsewhere
        self._lock = Lock()
        self._agents: OrderedDict[tuple[str, str, str], _Agent] = OrderedDict()

    def answer(self, program: Program, name: str, told: Mapping[str, Any], *, interrupts: bool = False) -> HookReply:
        """Return the answer to the hook of this name. After a fault it is empty: the call runs.

        ``interrupts``: a run that no answer ends is ended by a signal. Without it such a run is refused call by call.
        """
        with self._runtime.shield("hook.read"):
            event = program.read(name, told)
            if event is not None and not self._is_elsewhere(event.place.session):
                answer = self._answer(program, event, ends=program.ends_by_answer or interrupts)
                return HookReply(program.write(name, answer), answer.ends)
        return HookReply({})

    def silent(self) -> Judge:
        """Return a new judge with the same policy, whose calls have no span, are not counted, and not logged."""
        runtime = Runtime(
            self._runtime.guard.policy,
            settings=self._runtime.settings._replace(summary=False),
            tracer_provider=NoOpTracerProvider(),
            meter_provider=NoOpMeterProvider(),
            logger_provider=NoOpLoggerProvider(),
        )
        runtime.providers.events.is_silent = True
        return Judge(runtime)

    def _answer(self, program: Program, event: Event, *, ends: bool) -> Answer:
        if isinstance(event, SessionOver):
            self._forget(program, event.place.session)
            return _NOTHING
        agent = self._agent(program, event.place)
        with agent.lock:
            agent.ends = ends
            return agent.answer(event)

    def _agent(self, program: Program, place: Place) -> _Agent:
        key = (program.name, place.session, place.agent)
        with self._lock:
            agent = self._agents.get(key)
            if agent is None:
                agent = self._agents[key] = _Agent(self._runtime, program, place, self._on_end)
            self._agents.move_to_end(key)
            forgotten = self._agents.popitem(last=False)[1] if len(self._agents) > _MOST_AGENTS else None
        if forgotten is not None:
            with forgotten.lock:
                forgotten.end_turn()
        return agent

    def end_turn(self, program: Program, session: str, error: BaseException | None) -> None:
        """End the turn of a session's own agent: the program says so, and perhaps no hook. ``error``: why; or None."""
        agent = self._agent(program, Place(session))
        with agent.lock:
            agent.end_turn(error)

    def _forget(self, program: Program, session: str) -> None:
        with self._lock:
            over = [key for key in self._agents if key[:2] == (program.name, session)]
            agents = [self._agents.pop(key) for key in over]
        for agent in agents:
            with agent.lock:
                agent.end_turn()

    def state(self) -> bytes:
        """Return the turns as bytes, for ``restore`` in another process with the same hash key. They have no values."""
        with self._lock:
            agents = list(self._agents.items())
        kept = []
        for key, agent in agents:
            with agent.lock:
                if agent.history is not None:
                    kept.append([*key, agent.turn, base64.b64encode(agent.history).decode()])
        return orjson.dumps(kept)

    def restore(self, state: bytes) -> None:
        """Go on with the turns of another judge. What cannot be read begins anew: its calls are first calls."""
        with self._runtime.shield("hook.restore"):
            for name, session, agent_id, turn, history in orjson.loads(state):
                program = programs().get(name)
                if program is not None:
                    agent = self._agent(program, Place(session, agent_id))
                    with agent.lock:
                        agent.resume(turn, base64.b64decode(history))

    def close(self) -> None:
        """End all turns. They are broken off."""
        with self._lock:
            agents = list(self._agents.values())
            self._agents.clear()
        for agent in agents:
            with agent.lock:
                agent.end_turn(CancelledError())


class _Agent:
    """An agent of a session: its turn, and the calls that have begun. The caller holds ``lock``."""

    def __init__(
        self, runtime: Runtime, program: Program, place: Place, on_end: Callable[[Place, RunStopped], None]
    ) -> None:
        self.lock = Lock()
        self._runtime = runtime
        self._program = program
        self._place = place
        self._on_end = on_end
        self._info = RunInfo("/".join(filter(None, (place.session, place.agent))), program.name)
        self.turn = ""
        """The program's id of the user's message."""
        self.ends = True
        """True if a run can be ended."""
        self._run: OpenRun | None = None
        self._history: bytes | None = None
        """The history of the turn while no run is open. An agent that has stopped may have to go on."""
        self._history_before: bytes | None = None
        """That of the turn before, which the agent may have to go on with all the same."""
        self._so_far = ""
        """The answers to the user's message, as ``Stopping`` told them last."""
        self._open: OrderedDict[object, deque[GuardedCall]] = OrderedDict()
        self._seen: set[str] = set()
        """The ids of calls since the last ``MessageOver`` that had hooks of their own."""
        self._of_message = 0
        """The calls since the last ``MessageOver``."""
        self._written = 0
        """The turn's tick when the model wrote the first of them."""
        self._delegations = 0
        """The calls that run a sub-agent now whose hooks do not tell it from this agent."""
        self._delegated: _Agent | None = None

    def answer(self, event: Event) -> Answer:
        """Take an event, and return what the program is told."""
        turn = event.place.turn
        if isinstance(event, Stopping) and turn and turn != self.turn:
            return _NOTHING  # the end of an earlier turn, told late
        if turn != self.turn or (isinstance(event, Prompt) and not turn):
            self.end_turn()
            self.turn = turn
            self._history_before, self._history = self._history, None
        if isinstance(event, Before | After):
            delegates = event.call.tool in self._program.delegating
            if self._delegated is not None and not delegates:
                return self._delegated.answer(event)
            if isinstance(event, After):
                self._count_delegations(-delegates)
                return self._after(event.call, event.outcome)
            answer = self._before(event.call)
            self._count_delegations(delegates and not answer.refusal)
            return answer
        if isinstance(event, MessageOver):
            return self._message_over(event)
        if isinstance(event, Choosing):
            if self._delegated is not None:
                return self._delegated.answer(event)
            return Answer(withdraws=self._run is not None and self._run.scope.turn.conclude() is not None)
        return self._stopping(event) if isinstance(event, Stopping) else _NOTHING

    def _stopping(self, event: Stopping) -> Answer:
        """End the turn. Of an answer that a hook of the user gets once more, say when there is nothing new in it."""
        answer, again = _NOTHING, event.again
        if event.so_far:
            again = None if again is None else again.removeprefix(self._so_far).strip()
            self._so_far = event.so_far
        if again is not None:
            if self._run is None and self._history is None:  # the hook's words came as a message of the user
                self._history = self._history_before
            begun = self._begun(ToolCall(_STOP_HOOK, {"answer": again}))
            if isinstance(begun, Answer):
                answer = Answer(refusal=_LET_GO)
            elif self._told(begun, Outcome("not accepted")).sentence:
                answer = Answer(sentence=_SAME_ANSWER)
        history = self.history
        self.end_turn()
        self._history = history
        return answer

    def _count_delegations(self, more: int) -> None:
        """Begin or end the sub-agent that is not told from this agent."""
        self._delegations = max(0, self._delegations + more)
        if self._delegations and self._delegated is None:
            place = self._place._replace(agent="sub-agent")
            self._delegated = _Agent(self._runtime, self._program, place, self._on_end)
        elif not self._delegations and self._delegated is not None:
            self._delegated.end_turn()
            self._delegated = None

    def _before(self, call: ToolCall) -> Answer:
        guarded = self._begun(call)
        if isinstance(guarded, Answer):
            return guarded
        self._open.setdefault(_key(call), deque()).append(guarded)
        if len(self._open) > _MOST_OPEN:
            for lost in self._open.popitem(last=False)[1]:
                lost.end()
        return _NOTHING

    def _begun(self, call: ToolCall) -> GuardedCall | Answer:
        """Begin a call. Return it, not ended, if it may run; else what the program is told."""
        if call.call_id is not None:
            self._seen.add(call.call_id)
        scope = self._scope()
        if self._program.tells_messages:
            call = call._replace(written=self._tick_of_message(scope))
        of_mcp = call.tool.startswith("mcp_")  # in most programs
        reading = Reading(call, agent_name=self._program.name, of_mcp=of_mcp)
        guarded = GuardedCall(self._runtime, _ADAPTER, reading, scope, None)
        try:
            guarded.__enter__()
        except RunStopped as error:
            self._on_end(self._place, error)
            return Answer(refusal=str(error), ends=True)
        if guarded.answered:
            guarded.__exit__(None, None, None)
            return Answer(refusal=str(guarded.answer))
        guarded.suspend()
        return guarded

    def _after(self, call: ToolCall, outcome: Outcome) -> Answer:
        waiting = self._open.get(_key(call))
        if waiting:
            guarded: GuardedCall | Answer = waiting.popleft()
            if not waiting:
                del self._open[_key(call)]
        else:  # nobody asked before it ran
            guarded = self._begun(call)
        if isinstance(guarded, Answer):
            return guarded._replace(refusal="", sentence=guarded.refusal)
        return self._told(guarded, outcome)

    def _told(self, guarded: GuardedCall, outcome: Outcome) -> Answer:
        """End a call that ran. Return the sentence that goes with its result."""
        told = guarded.result(_Told(outcome))
        guarded.__exit__(None, None, None)
        return Answer(sentence=told.sentence)

    def _tick_of_message(self, scope: Scope) -> int | None:
        """Return the turn's tick when the model wrote the next call: it may run after others of the same message."""
        self._written = self._written if self._of_message else scope.turn.tick
        self._of_message += 1
        return self._written if self._of_message <= _MOST_OF_MESSAGE else None

    def _message_over(self, event: MessageOver) -> Answer:
        """Judge the calls of which no end was told. Those without a hook of their own had no such tool, or arguments
        that are not valid; somebody else has refused the others.
        """
        sentences, ends, seen = [], False, self._seen
        self._seen = set()
        for call, outcome in event.calls:
            if call.call_id is None or (call.call_id in seen and _key(call) not in self._open):
                continue
            refused_elsewhere = Outcome(error=outcome.error or str(outcome.result))
            answer = self._after(call, refused_elsewhere if call.call_id in seen else outcome)
            sentences.append(answer.sentence)
            ends = ends or answer.ends
        self._seen.clear()
        self._of_message = 0
        return Answer(sentence="\n".join(filter(None, sentences)), ends=ends)

    def _scope(self) -> Scope:
        if self._run is None:
            self._run = self._runtime.runs.open(self._info)
            self._runtime.begin_span(self._run.scope)
            if not self.ends:
                self._run.scope.turn.never_ends()
            if self._history is not None and self._run.owned:
                with suppress(LoopGuardError):  # of another hash key: the turn begins anew
                    self._run.scope.turn.restore(self._history)
        return self._run.scope

    @property
    def history(self) -> bytes | None:
        """The history of the turn; None if it has none."""
        return self._history if self._run is None else self._run.scope.turn.state()

    def resume(self, turn: str, history: bytes) -> None:
        """Go on with this turn at its next call."""
        self.turn, self._history = turn, history

    def end_turn(self, error: BaseException | None = None) -> None:
        """End the turn, and the calls of which no end was told. ``error``: what has broken it off, or None."""
        for calls in self._open.values():
            for call in calls:
                call.end()
        self._open.clear()
        self._seen.clear()
        self._of_message = 0
        self._count_delegations(-self._delegations)
        run, self._run = self._run, None
        if run is not None:
            self._runtime.runs.close(run, error)


def _key(call: ToolCall) -> object:
    """Return the model's id of a call; where the program tells none, its name and arguments."""
    return call.call_id if call.call_id is not None else (call.tool, repr(call.arguments))
