"""Read each request to a model: count the tool calls whose results are new in it, and change it if they are a loop.

The tools have run by then, so no call is refused here. A request may get sentences for the model, in a copy; it
may be sent without tools, so that the model answers; or the run is ended with ``RunStopped``.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
from collections import OrderedDict
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakSet

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan

from otel_loopguard import semconv
from otel_loopguard.engine import sentences
from otel_loopguard.engine.history.text_blocks import NO_BLOCKS, GrowingText
from otel_loopguard.engine.ledger import COMPACTED, NOTHING_SPENT, REQUEST_SENT, of_loop, of_reply
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall, Usage
from otel_loopguard.guard.ending import ANSWERED, CANCELLED, FAILED
from otel_loopguard.instrumentation import replica_calls
from otel_loopguard.instrumentation.aborts import abort_error
from otel_loopguard.instrumentation.reported_calls import ReportedCall, ReportedCalls
from otel_loopguard.store import background
from otel_loopguard.telemetry.call_span import CallSpan, NativeSpan, printable_name
from otel_loopguard.telemetry.providers import SPANS_ALONE
from otel_loopguard.turns.endings import begin, move, see
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.message_lists import MessageList, MessageLists, Request, is_drawn, latest
from otel_loopguard.turns.scope import Scope, current_scope
from otel_loopguard.turns.thinking import Thinking
from otel_loopguard.turns.tree_over_processes import join_tree
from otel_loopguard.turns.unanswered import UnansweredReplies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.vocabulary import Decision, Trip
    from otel_loopguard.errors import RunStopped
    from otel_loopguard.guard.ending import End
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.model_api import Body, Collector, Dialect, Sent
    from otel_loopguard.instrumentation.replica_calls import Note
    from otel_loopguard.instrumentation.reported_calls import Written
    from otel_loopguard.shield import Shield
    from otel_loopguard.store.store import Store
    from otel_loopguard.telemetry.providers import Providers
    from otel_loopguard.turns.message_lists import Caller, Delta, NewResult
    from otel_loopguard.turns.messages import Reply
    from otel_loopguard.turns.runs import Runs
    from otel_loopguard.turns.usage import UsageLedger

_MOST_TURNS = 2_000
_MOST_CALLS = 1_024
_MOST_NAMES = 16
_AT_ONCE = 50
"""Calls of one request after which other tasks of the event loop go on."""
_ON_PROBATION = 3
"""A turn on probation is ended at so many calls that would have been refused: the program goes on by itself."""
_MOST_ENDED = 1_024
_TRIED_AGAIN = 600.0
"""Seconds after the end of a turn in which an equal first request is a retry of it."""


class _Judged(NamedTuple):
    """A call that its executor has judged."""

    tool: str
    key: int
    is_loop: bool
    """It was refused, or repeated in vain."""
    has_result: bool
    """The model gets its result, of this run or an earlier one. False: it gets a refusal."""


class _Unseen(NamedTuple):
    """A call that no executor has judged."""

    new: NewResult
    call: ToolCall
    outcome: Outcome
    ran: float
    """The seconds that it took."""
    ago: float
    """The seconds since it ended."""
    is_reported: bool
    """Its span is written already: its result was in another message list, or in a request of another process."""


class ModelReader:
    """Read the requests of this process, and keep the message lists that they belong to."""

    def __init__(
        self,
        guard: Guard,
        runs: Runs,
        providers: Providers,
        usage: UsageLedger,
        shield: Shield,
        *,
        begin_span: Callable[[Scope], None],
    ) -> None:
        self.guard = guard
        self.runs = runs
        self.usage = usage
        self.providers = providers
        self.shield = shield
        self._begin_span = begin_span
        """Begins the span of a turn."""
        self.is_used = False
        """True once a request was read. Then each call that an executor has run or refused is noted: ``executed``."""
        self.lists = MessageLists(self._dropped)
        self.chats = MessageLists(self._dropped)
        """Those of requests without tools, of which the texts alone are judged. No agent's next request finds them."""
        self.unanswered = UnansweredReplies()
        self.seen = ReportedCalls(guard)
        self.answer_tools: set[str] = set()
        """The names of tools whose call is the answer of an agent, as far as the adapters of frameworks know them."""
        self._judged: OrderedDict[str, dict[Any, _Judged]] = OrderedDict()
        """The calls that executors have judged, by turn and call id."""
        self._ended: OrderedDict[int, float] = OrderedDict()
        """The time at which a turn was ended with ``RunStopped``, by its opening."""

    def open(self, sent: Sent, caller: Caller | None = None) -> Exchange:
        """Read a request that is about to be sent, and return its exchange. May fail: the caller holds the shield.

        ``caller``: the sender of a request that came over the network. None: this process made it, maybe in a turn.
        """
        dialect, body = sent.dialect, sent.body
        entries = dialect.messages(body)
        marks, tools, previous = dialect.marks(entries), dialect.tools(body), dialect.previous(body)
        request = Request(entries, marks, dialect.read, tools, previous, caller)
        # Only now: the calls of a program whose requests are not read need not be kept.
        self.is_used, self.providers.usage_of = True, self.usage.written_first
        scope = (self.runs.known(sent.run_id) or current_scope()) if caller is None else None
        if scope is not None and not scope.strong:
            scope = None
        turn = None if scope is None or scope.call is not None else scope.turn
        found = self.lists.find(request, turn)
        if found is not None:
            with found.lock:
                if request.tools == frozenset() and found.common(request.marks) < len(found.marks):
                    found = None  # a request of another purpose about the same messages, such as a summary of them
        if caller is None:
            self.unanswered.requests += 1
            self.unanswered.has_tools |= request.tools != frozenset()
        if found is None and request.tools == frozenset():
            return self._open_chat(sent, request, scope)
        one, now = MessageList(caller) if found is None else found, self.guard.clock()
        with one.lock:
            waited = one.is_unanswered and one.whole != hash(tuple(request.marks))
            delta = one.read(request, now, self.shield)
            if delta.begins_turn:
                one.opening = hash((previous, one.whole))
        if caller is None and not dialect.demands(body):
            with self.shield("model.unanswered"):
                self.unanswered.sent(request, one, delta, waited=waited)
        names: list[tuple[Any, ...]] = delta.written[-_MOST_NAMES:]
        if request.previous is not None:  # the id of a conversation stays the same
            names.append(("reply", request.previous))
        if turn is not None:
            names.append(("turn", turn.id, request.tools))
        self.lists.keep(one, names, now)
        latest.set(one)
        if caller is None and one.turn is not None and one.owns_turn:
            see(one.turn)
        return Exchange(self, sent, request, scope, one, delta)

    def _open_chat(self, sent: Sent, request: Request, scope: Scope | None) -> Exchange:
        """Return the exchange of a request without tools that continues no agent's message list."""
        one = self.chats.find(request, None) or MessageList(request.caller)
        if scope is not None and scope.call is None:
            self.join_turn(one, scope.turn)
        with one.lock:
            delta = one.read(request, self.guard.clock(), self.shield)
        self.chats.keep(one, (), self.guard.clock())
        if delta.begins_turn and one.owns_turn:
            self.leave_turn(one)
        return Exchange(self, sent, request, scope, chat=one)

    def executed(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        """Note a call that its executor has judged: its result in the next request is not counted again."""
        record = decision.record
        if record is None:
            return
        is_loop, has_result = decision.is_loop_step, decision.runs or decision.action is Action.REUSE
        calls = self._judged.setdefault(turn.id, {})
        calls[call.call_id or (record.key, record.index)] = _Judged(call.tool, record.key, is_loop, has_result)
        if len(calls) > _MOST_CALLS:
            calls.pop(next(iter(calls)), None)
        if len(self._judged) > _MOST_TURNS:
            self._judged.popitem(last=False)
        one = self._list_of_call(call)
        if one is not None:
            one.has_run = True
            self.unanswered.answered(one)
        if one is not None and one.turn is not turn:
            self.join_turn(one, turn)  # of an agent's run whose requests are made outside of its scope
        if call.call_id is not None:
            self.judged(turn, turn.id, call.call_id, is_loop=is_loop)

    def judged(self, turn: Turn | None, usage_key: str, call_id: str, *, is_loop: bool) -> None:
        """Note that a call is judged. With the last one of its reply the request may be a step of a loop."""
        of_loop_step = self.usage.judged(usage_key, call_id, is_loop=is_loop)
        if of_loop_step is not None and turn is not None:
            turn.spend(of_loop(of_loop_step))

    def take_executed(self, turn: Turn, call: ToolCall, key: int) -> _Judged | None:
        """Return the judgement of a call by its executor, and forget it; None if no executor has judged the call.

        Some frameworks give a call another id than the one on the wire, or none, and other arguments, such as defaults.
        """
        calls = self._judged.get(turn.id)
        if not calls:
            return None
        if call.call_id in calls:
            return calls.pop(call.call_id, None)
        of_tool = [(name, one) for name, one in list(calls.items()) if one.tool == call.tool]
        name = next((name for name, one in of_tool if one.key == key), of_tool[0][0] if of_tool else None)
        return calls.pop(name, None)

    def turn_of_call(self, call: ToolCall) -> Turn | None:
        """Return the turn of a call that is in the last reply that the running code got; None if it is not there."""
        one = latest.get()
        if one is None or not one.has_open(call.tool, call.call_id):
            return None
        if one.turn is None:
            self.make_turn(one, None)
        return one.turn

    def is_open(self, call: ToolCall) -> bool:
        """Return True if a reply that was read has this call, and no request has brought its result."""
        return self.is_used and self._list_of_call(call) is not None

    def _list_of_call(self, call: ToolCall) -> MessageList | None:
        """Return the message list whose last reply has this call: that of the running code, else the only one."""
        one = latest.get()
        if one is not None and one.has_open(call.tool, call.call_id):
            return one
        return None if call.call_id is None else self.lists.find_open(call.tool, call.call_id)

    def leave_turn(self, one: MessageList, into: Turn | None = None) -> None:
        """End the turn of a message list, and begin another, which is not made yet: ``into``, if that is given."""
        self.end_turn(one, into)
        one.begin_turn()
        ended = self._ended.get(one.opening)
        one.on_probation |= ended is not None and self.guard.clock() - ended < _TRIED_AGAIN

    def ended(self, one: MessageList, error: RunStopped | None) -> None:
        """Note that this error ends the turn of a message list. The next turn with this opening may be a retry."""
        one.error = error
        if one.turn is not None:
            one.turn.aborted()
            if one.owns_turn:
                self.runs.end_turn(one.turn, error)
        if one.caller is None:  # equal requests over the network may be of other agents
            self._ended[one.opening] = self.guard.clock()
            self._ended.move_to_end(one.opening)
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def report(self, turn: Turn, trip: Trip, scope: Scope | None = None) -> None:
        """Report a trip of a request to a model: on the span around it, else on the turn's own, and in the metrics."""
        outlets, first, (span, context) = self.providers.outlets(), turn.reach(trip), self.place(turn, scope)
        identity = {semconv.TURN_ID: turn.id, semconv.TURN_SOURCE: turn.source}
        self.providers.events.emit(trip, "", first, span, context, record=None, identity=identity)
        outlets.meters.trip(turn.known_as, trip, semconv.UNKNOWN_TOOL, first, context, is_shared=turn.is_shared)
        self.providers.events.log_request(trip, turn, span.get_span_context())

    @staticmethod
    def place(turn: Turn, scope: Scope | None) -> tuple[Span, Context]:
        """Return the span that shows what is done to a request, and its context.

        ``scope``: that of the request. The span of its run may not be the current one.
        """
        context = otel_context.get_current()
        run = None if scope is None or scope.run_state is None else scope.run_state.span_context
        if run is not None and not trace.get_current_span().is_recording():
            context = run
        span = trace.get_current_span(context)
        if not span.is_recording() and turn.span is not None:
            span = turn.span.otel_span
        return span, context

    def make_turn(self, one: MessageList, scope: Scope | None) -> None:
        """Make the turn of a message list. Inside a tool call it is nested in that call."""
        if scope is not None and scope.call is not None:
            one.turn = scope.turn.child(scope.call)
        else:
            caller = one.caller
            named = caller is not None and caller.conversation_id is not None and self.guard.store is None
            one.turn = self.guard.turn(source="messages", conversation_id=str(caller) if named else None)
            if caller is None:
                begin(one.turn)
                join_tree(self.guard, one.turn)
                _at_exit.watch(self)
                with self.shield("run.span"):
                    self._begin_span(Scope(one.turn))
        one.owns_turn = True

    def make_turn_of_replicas(self, one: MessageList, turn_id: str, *, is_kept: bool) -> None:
        """Make a turn that has this id in all replicas of a gateway.

        ``is_kept``: the provider keeps the conversation, so no request has all calls. Then the replicas share the turn.
        """
        if is_kept:
            one.turn = self.guard.shared_turn(f"gateway:{turn_id}", turn_id, source="messages")
        else:
            one.turn = self.guard.turn(source="messages")
            one.turn.id = turn_id
        one.owns_turn = True

    def join_turn(self, one: MessageList, turn: Turn) -> None:
        """Make this turn, of the agent's run that makes the requests, that of a message list. End the one before."""
        if one.turn is not turn:
            self.leave_turn(one, turn)
            one.turn = turn
            self.usage.rename(one.usage_key, turn.id)
            one.usage_key = turn.id

    def end_turn(self, one: MessageList, into: Turn | None = None) -> None:
        """End the turn of a message list. That of an agent's run goes on without the list.

        ``into``: the agent's run that the list has turned out to be a part of, if any.
        """
        if one.turn is not None and one.owns_turn:
            if into is not None and one.turn.ended_as is None and not one.turn.calls:
                move(one.turn, into)
            elif one.caller is None:  # the next request of a gateway's client may be in another replica
                self.runs.end_turn(one.turn, how=one.left_as)
            self.usage.close(one.usage_key)
            self.runs.close_turn(one.turn)
        one.turn, one.owns_turn = None, False

    def open_turns(self) -> Iterator[Turn]:
        """Yield the turns that no new message of a user has ended yet, the latest last."""
        return (one.turn for one in (*self.chats, *self.lists) if one.turn is not None and one.owns_turn)

    def end_turns(self) -> None:
        """End all turns of message lists, at the exit of the process."""
        for one in (*self.chats, *self.lists):
            self._dropped(one)

    def _dropped(self, one: MessageList) -> None:
        with self.shield("model.drop"):
            self.end_turn(one)

    def after_fork(self) -> None:
        """Forget the parent's message lists and calls in a child process."""
        self.lists.clear()
        self.chats.clear()
        self.unanswered = UnansweredReplies()
        self.seen.clear()
        self._judged.clear()
        self._ended.clear()


class _AtExit:
    """End the turns of all readers when the process exits. Registered late, so it comes before the exporters' own."""

    def __init__(self) -> None:
        self._readers: WeakSet[ModelReader] = WeakSet()
        self._is_registered = False

    def watch(self, reader: ModelReader) -> None:
        """End the turns of this reader at the exit."""
        self._readers.add(reader)
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self._end)

    def _end(self) -> None:
        for reader in list(self._readers):
            reader.end_turns()


_at_exit = _AtExit()


class ReadCall:
    """A call that was judged when its result was read in a request: there is nothing left to decide about it."""

    def __init__(self, span: CallSpan, decision: Decision, seconds: float) -> None:
        self.call = span.call
        self.decision = decision
        self._span = span
        self._seconds = seconds

    def decide(self, span: Span) -> None:
        """Describe the decision on the span, when the span processor calls this: see ``CalledBack``."""
        self._span.describe(span, self.decision, self._seconds)


class Exchange:
    """One request and its reply, whole or in chunks. Its methods may fail: their callers hold the shield."""

    def __init__(  # noqa: PLR0917 - the parts of one request
        self,
        reader: ModelReader,
        sent: Sent,
        request: Request,
        scope: Scope | None,
        one: MessageList | None = None,
        delta: Delta | None = None,
        *,
        chat: MessageList | None = None,
    ) -> None:
        self._reader = reader
        self.shield = reader.shield
        self._sent = sent
        self._request = request
        self._list = one
        self._chat = chat
        """The message list of a request without tools. Once its texts are a loop, it is the list of the request."""
        self._delta = delta
        self._scope = scope
        self._ids: dict[int, str] | None = None
        """In a gateway with a store: the ids of the new calls by their numbers, each unique in its turn."""
        self._notes: list[Note] = []
        """The calls of the reply for other replicas of a gateway, if the provider keeps the conversation."""
        self._written: dict[int, Written] = {}
        """When the calls of the reply were written, for other replicas of a gateway."""
        self._root: str | None = None
        """The first call of the message list, by which these find them."""
        self._abort: Decision | None = None
        self.end: End | None = None
        """How the turn has ended with the reply; None if that has calls, or is part of an agent's run."""
        self._collector: Collector | None = None
        self._words: GrowingText | None = None
        """What the model writes; None if nothing judges that."""
        self._stopped: Callable[[], type[RunStopped]] | None = None
        """Returns the class of the error that ends a run here."""
        self._payer: Turn | None = None
        """The turn whose ledger has the request; None if it is in none yet."""
        self._thinking: Thinking | None = None
        """The time of the request, once it is sent; None in no turn."""

    # --- the request ---------------------------------------------------------------------------------------------

    def judge_calls(self) -> None:
        """Count the calls whose results are new in this request."""
        turn = self._turn()
        if turn is not None:
            for one in self._unseen_calls(turn):
                started = perf_counter()
                self._count(one, turn.ran(one.call, one.outcome, took=one.ran, ago=one.ago), started)
            self._lose(turn)

    async def ajudge_calls(self) -> None:
        """Do the same as ``judge_calls`` in async code: await an async ``on_trip``, and the store of a gateway."""
        if self._is_shared and self._request.previous is not None and self._list is not None and self._delta:
            guard = self._reader.guard
            await replica_calls.recall(guard, self._request, self._list, self._delta, guard.clock())
        turn = self._turn()
        if turn is None:
            return
        if self._is_shared and self._list is not None and self._delta is not None:
            self._ids = self._named(self._list)
            root = self._list.root = self._list.root or self._request.first_drawn()
            if root is not None:
                await self._reader.seen.share(self._request.caller, root, self._delta.new, self._ids)
        for number, one in enumerate(self._unseen_calls(turn)):
            started = perf_counter()
            decision = await turn.aran(one.call, one.outcome, took=one.ran, ago=one.ago)
            self._count(one, decision, started)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        self._lose(turn)

    def _lose(self, turn: Turn) -> None:
        """Tell the turn what the model sees no longer. When it wrote the new calls, it saw the request before."""
        lost = self._list.without_result(self._delta.lost) if self._list and self._delta and self._delta.lost else ()
        if lost:
            turn.lose(lost)

    def _turn(self) -> Turn | None:
        """Return the turn of this request; make it if need be. None: it has no new result, and begins no turn."""
        one, delta, scope = self._list, self._delta, self._scope
        if one is None or delta is None:
            return None
        if one.thinking is not None:
            one.thinking.leave()
        if scope is not None and scope.call is None:
            self._reader.join_turn(one, scope.turn)
        elif delta.begins_turn:
            self._reader.leave_turn(one)
            if self._request.caller is None:
                self._reader.make_turn(one, scope)
        if one.turn is None:
            if not delta.new:
                return None
            turn_id, is_kept = self._turn_id(one, delta.new[0]), self._request.previous is not None
            if turn_id is None:
                self._reader.make_turn(one, scope)
            else:
                self._reader.make_turn_of_replicas(one, turn_id, is_kept=is_kept)
        elif one.owns_turn and delta.new:
            one.turn.go_on()
        return one.turn

    @property
    def _is_shared(self) -> bool:
        """True if other replicas of a gateway may get the next request."""
        return self._request.caller is not None and self._reader.guard.store is not None

    def _turn_id(self, one: MessageList, first: NewResult) -> str | None:
        """Return a turn id that every replica of a gateway derives from the first call; None if none can be derived."""
        caller, call = self._request.caller, first.opened.call
        if caller is None:
            return None
        if self._request.previous is not None and one.kept_turn is not None:
            return one.kept_turn
        return replica_calls.turn_id(self._reader.guard, caller, call) if is_drawn(call.id) else None

    def _named(self, one: MessageList) -> dict[int, str]:
        """Return ids of the calls with new results by their numbers. Each id is unique in its turn."""
        news = () if self._delta is None else self._delta.new
        return {new.number: one.call_id(new.opened.call) for new in news}

    def _unseen_calls(self, turn: Turn) -> Iterator[_Unseen]:
        """Yield the calls with new results that no executor has judged."""
        one, delta = self._list, self._delta
        if one is None or delta is None:
            return
        now, reader, before = self._reader.guard.clock(), self._reader, None
        ids = self._ids if self._ids is not None or one.caller is None else self._named(one)
        # The first request with the results of a reply is the one after it. Another process has sent that of others.
        last = max((new.opened.message for new in delta.new), default=0)
        one.verdicts.clear()
        for new in delta.new:
            written, result = new.opened.call, new.result
            call = ToolCall(
                written.name,
                written.arguments,
                written.id if ids is None or not turn.is_shared else ids[new.number],
                self._request.tools or None,
                written=one.ticks.setdefault(new.opened.message, turn.tick),
            )
            key = turn.key_of(call)
            judged = reader.take_executed(turn, call, key)
            if judged is None or judged.has_result:  # else nothing of the call is in view
                one.judged(new.number, key if judged is None else judged.key)
            if judged is None:
                at, known = new.opened.at, None
                if ids is not None:
                    name = reader.seen.name(self._request, one.place_of(new.number), new, ids[new.number])
                    at, thought = reader.seen.written(name, new)
                    if thought and not turn.is_shared:
                        turn.thought(thought, ago=max(0.0, now - at))
                seen = ReportedCall(now, max(0.0, now - at))
                if ids is not None:
                    known = reader.seen.add(name, seen, is_own=is_drawn(result.id))
                    if before is not None and turn.concluded_before(call):
                        self._conclude(one, turn, before)
                    before = new.number
                ended, ran = known or seen
                outcome = Outcome(result.content, is_error=result.is_error)
                is_reported = new.opened.message < last if ids is None else known is not None
                yield _Unseen(new, call, outcome, ran, max(0.0, now - ended), is_reported)
            else:
                self._book(one, new, is_loop=judged.is_loop)

    @staticmethod
    def _conclude(one: MessageList, turn: Turn, number: int) -> None:
        """If a conclusion is due, add its sentence to the result of this number."""
        _add(one, number, turn.conclude())

    def _book(self, one: MessageList, new: NewResult, *, is_loop: bool) -> None:
        one.verdicts[new.opened.name] = is_loop
        self._reader.judged(one.turn, one.usage_key, new.opened.name, is_loop=is_loop)

    def _count(self, unseen: _Unseen, decision: Decision, started: float) -> None:
        """Write the span of a call, and note what its decision asks for: a sentence, or the end of the run."""
        one, (new, call, outcome, ran, ago, is_reported) = self._list, unseen
        if one is None or one.turn is None:
            return
        ends = one.on_probation and one.turn.refusals >= _ON_PROBATION and one.turn.policy.abort_after > 0
        if ends and decision.trip is not None and decision.trip.verdict >= Action.REUSE:
            trip = decision.trip._replace(verdict=Action.ABORT, action=Action.ABORT)
            decision = decision._replace(action=Action.ABORT, trip=trip, message=None)
        if decision.action is Action.ABORT:
            self._abort = decision
        elif decision.message and self._has_place(one, new.number):
            one.sentences[new.number] = decision.message
        elif decision.message:
            one.turn.redeliver(decision)
            decision = decision._replace(message=None)
        if decision.repeated or is_reported:
            self._book(one, new, is_loop=decision.is_loop_step)
            return
        around, scope = self._scope or self._request.caller, self._scope
        if scope is None or scope.turn is not one.turn:  # of no scope, or nested in the call of this one
            scope = Scope(one.turn, conversation_id=None if around is None else around.conversation_id)
        span = CallSpan(self._reader.providers, call, scope, NativeSpan.NONE)
        read_call = ReadCall(span, decision, perf_counter() - started)
        context = otel_context.get_current()
        if one.trace is not None and not trace.get_current_span().get_span_context().is_valid:
            context = trace.set_span_in_context(NonRecordingSpan(one.trace), context)
        token = otel_context.attach(context)
        try:
            span.usage = self._reader.usage.written_first(one.usage_key, new.opened.name)
            span.start(read_call, time_ns() - int((ran + ago) * 1e9))
            read_call.decide(span.otel_span)  # if there is no span processor
            span.is_nudged = bool(decision.message) and decision.action is not Action.ABORT
            span.finish(_ending(decision, is_nudged=span.is_nudged), outcome, decision)
        finally:
            otel_context.detach(token)
        self._book(one, new, is_loop=decision.is_loop_step)
        if one.trace is None and one.turn.span is None and span.otel_span.get_span_context().is_valid:
            one.trace = span.otel_span.get_span_context()

    def _has_place(self, one: MessageList, number: int) -> bool:
        """Return True if a sentence can be added to this result."""
        place = one.place_of(number)
        if place is None:
            return False
        entry = self._request.entries[place[0]]
        return self._sent.dialect.annotate(entry, {place[1]: "a sentence"}) is not entry

    def prepare(self, error: Callable[[], type[RunStopped]], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments and keywords for the client's method, or raise the ``RunStopped`` that ends the run.

        ``error``: return the class of that error. The request is sent next: its time begins.
        """
        texts, scope = None, self._scope
        with self.shield("model.texts"):
            texts = self._repeated()
        one = self._list
        turn = None if one is None else one.turn
        if scope is not None and scope.call is None:
            turn = scope.turn
        has_answer = scope is not None and scope.run_state is not None and scope.run_state.has_answer
        is_over = has_answer or self._abort is not None  # or a call has ended the run
        judged = texts is not None or (turn is not None and turn.compiled.budgets)
        if turn is not None and judged and not is_over and (one is None or one.withdrawn != one.whole):
            self._judge(turn, texts, error)
        if one is not None:
            args, kwargs = self._decided(one, error, args, kwargs)
        self._thinking = None if turn is None else Thinking(self._reader.guard.clock, turn)
        self._see_span(self._sent.dialect.operation)
        self._stopped = error
        if one is not None:
            one.thinking = self._thinking
        compiled = self._reader.guard.compiled if turn is None else turn.compiled
        self._words = GrowingText() if compiled.at_reply else None
        self._payer = turn if turn is not None or scope is None else scope.turn
        with self.shield("model.spend"):
            is_compacted = self._delta is not None and self._delta.is_compacted
            self._spend(REQUEST_SENT.plus(COMPACTED) if is_compacted else REQUEST_SENT)
        return args, kwargs

    def pass_on(self, sent: Sent, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments and keywords of a client's method that sends this request to where it goes."""
        self._see_span(sent.dialect.operation)
        return self._marked(sent, args, kwargs) if self._list is not None else (args, kwargs)

    def _marked(self, sent: Sent, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Tell a gateway that the calls of the request are judged, if they are."""
        if sent.judged is None or self._reader.guard.policy.action <= Action.OBSERVE:
            return args, kwargs
        return sent.judged(args, kwargs)

    def _see_span(self, operation: str) -> None:
        """Measure no such requests any more if another instrumentation has a span around this one."""
        span = trace.get_current_span()
        around, scope = getattr(span, "attributes", None), getattr(span, "instrumentation_scope", None)
        if around and around.get(semconv.OPERATION_NAME) == operation and getattr(scope, "name", "") not in SPANS_ALONE:
            self._reader.providers.unmeasured.add(self._sent.dialect.operation)

    def _repeated(self) -> ConversationTexts | None:
        """Return the texts of the conversation if a check of the policy finds a loop in them, else None."""
        one = self._list or self._chat
        if one is None:
            return None
        is_loop = one.error is None and self._compiled(one).trip_of_texts(one.texts) is not None
        if is_loop and one.turn is None:
            self._reader.make_turn(one, self._scope)
        if is_loop or one.error is not None or one.sentences:
            self._list = one
        return one.texts if is_loop else None

    def _compiled(self, one: MessageList) -> CompiledPolicy:
        return self._reader.guard.compiled if one.turn is None else one.turn.compiled

    def _tell(self, one: MessageList, sentence: str | None) -> None:
        """Add a sentence to the last message of the user; to none, if the provider keeps it or it takes no text."""
        if sentence is None:
            return
        places = reversed(range(len(self._request.entries)))
        place = next((place for place in places if self._request.message(place).by_user), None)
        if place is None:
            return
        number = one.of_user(place)
        if self._has_place(one, number):
            one.sentences[number] = sentence

    def _redeliver(self, one: MessageList) -> None:
        """Add what no result had a place for to the last new one that takes a text here: a copy for the model alone."""
        turn, delta = one.turn, self._delta
        if turn is None or delta is None or turn.current.messages is None:
            return
        number = next((new.number for new in reversed(delta.new) if self._has_place(one, new.number)), None)
        if number is not None:
            _add(one, number, turn.take_notes())

    def _judge(self, turn: Turn, texts: ConversationTexts | None, error: Callable[[], type[RunStopped]]) -> None:
        """Raise the error that ends the run beyond a budget or in a loop of texts. Else note what the model is told."""
        trip, one = None, self._list
        with self.shield("model.request"):
            trip = turn.asking(texts)
            if trip is not None:
                self._reader.report(turn, trip, self._scope)
            if trip is not None and trip.action is Action.NUDGE and one is not None:
                self._tell(one, sentences.nudge(trip, turn.policy))
        if trip is None:
            return
        if trip.action is Action.ABORT:
            ended: Any = abort_error(trip, "", Scope(turn), error(), has_run=True)
            if one is None:
                turn.aborted()
            else:
                self._reader.ended(one, ended)
            raise ended
        if trip.action is Action.CONCLUDE and (one is None or one.turn is not turn or not self._request.tools):
            turn.conclude()  # there is nothing to withdraw

    def _spend(self, more: Ledger) -> None:
        """Add to the ledger of the turn; before a message list has one, keep it for its turn."""
        one, turn = self._list, self._payer
        if turn is None and one is not None:
            one.unpaid = one.unpaid.plus(more)
        elif turn is not None:
            if one is not None and one.unpaid is not NOTHING_SPENT:
                more, one.unpaid = more.plus(one.unpaid), NOTHING_SPENT
            turn.spend(more)

    def _decided(self, one: MessageList, error: Callable[[], type[RunStopped]], args: Any, kwargs: Any) -> Any:
        """Return the arguments and keywords as the decisions ask for, or raise the error that ends the run."""
        ended = one.error
        if ended is None and self._abort is not None:
            trip = self._abort.trip
            if trip is not None and one.turn is not None:
                name = printable_name(ToolCall(trip.tool, known_tools=self._request.tools or None))
                ended = abort_error(trip, name, Scope(one.turn), error(), has_run=True)  # type: ignore[assignment]  # with a class it is of that class
                self._reader.ended(one, ended)
        if ended is not None:
            raise ended.with_traceback(None) from None
        with self.shield("model.notes"):
            self._redeliver(one)
        body = self._changed(one, self._sent.dialect, self._sent.body)
        if body is not self._sent.body:
            args, kwargs = self._sent.arguments(body)
        return self._marked(self._sent, args, kwargs)

    def _changed(self, one: MessageList, dialect: Dialect, body: Body) -> Body:
        """Return the request as it is to be sent; the program's own, if nothing is to be changed."""
        if one.withdrawn == one.whole:
            body = self._concluding(body)
        elif one.turn is not None and one.turn.conclusion_due and self._request.tools != frozenset():
            body = self._concluding(body)
            one.concluded, one.withdrawn = True, one.whole
            around, _ = self._reader.place(one.turn, self._scope)
            self._reader.providers.events.log_conclusion(one.turn, one.trace or around.get_span_context())
            last = one.last_result()
            if last is None:
                self._tell(one, one.turn.conclude())
            else:
                self._conclude(one, one.turn, last)
        places = one.annotations() if one.sentences else {}
        if places:
            entries = list(self._request.entries)
            for place, texts in places.items():
                if place < len(entries):
                    entries[place] = dialect.annotate(entries[place], texts)
            body = dialect.replace(body, entries)
        return body

    def _concluding(self, body: Body) -> Body:
        """Return the request as it asks for an answer: without tools, or with the call of the tool that is the answer.

        If its program demands a call, and no tool is known to be its answer, only the sentence asks for one.
        """
        dialect = self._sent.dialect
        if not dialect.demands(body):
            return dialect.withdraw(body)
        answers = self._reader.answer_tools.intersection(self._request.tools or ())
        return dialect.only(body, min(answers)) if answers else body

    # --- the reply -----------------------------------------------------------------------------------------------

    def listen(self, reply: Any) -> Any:
        """Listen to the reply. Return it for the program."""
        if self._thinking is not None:
            self._thinking.go_on()
        return self._sent.listen(reply, self)

    def whole(self, reply: Any) -> None:
        """Take a whole reply."""
        self._end()
        with self.shield("model.words"):
            self._look(self._sent.dialect.text(reply), is_last=True)
        read = self._sent.dialect.reply(reply)
        if read is not None:
            self._learn(read)

    def chunk(self, chunk: Any) -> None:
        """Take a chunk of a streamed reply."""
        if self._thinking is not None:
            self._thinking.go_on()
        if self._collector is None:
            self._collector = self._sent.dialect.collector()
        self._collector.add(chunk)
        if self._words is not None:
            self._look(self._sent.dialect.text(chunk))

    def _look(self, text: str, *, is_last: bool = False) -> None:
        """Look at what the model writes. Raise the error that cuts the stream, if the policy wants that."""
        one = self._list or self._chat
        blocks = NO_BLOCKS if self._words is None else self._words.add(text, is_last=is_last)
        if blocks.copies < 2 or one is None:
            return
        found = self._compiled(one).trip_of_blocks(blocks)
        if found is None or (one.blocks_are_judged and found.verdict is not Action.ABORT):
            return
        if one.turn is None:
            self._reader.make_turn(one, self._scope)
        self._list, turn = one, cast("Any", one.turn)
        trip, one.blocks_are_judged = turn.writing(found), True
        if trip is None:
            return
        self._reader.report(turn, trip, self._scope)
        if trip.action is Action.ABORT and self._stopped is not None and not is_last:
            ended: Any = abort_error(trip, "", Scope(turn), self._stopped(), has_run=True)
            self._reader.ended(one, ended)
            raise ended

    def over(self) -> None:
        """Note that a streamed reply is complete."""
        self._end()
        with self.shield("model.words"):
            self._look("", is_last=True)
        if self._collector is not None:
            self._learn(self._collector.reply())

    def failed(self) -> None:
        """Note that the request has failed, or the reading of its reply. Called while its exception is handled."""
        self._end()
        if self._list is not None:
            self._list.has_failed, self._list.is_sent = True, False
            self._list.left_as = FAILED if isinstance(sys.exc_info()[1], Exception) else CANCELLED

    def _end(self) -> None:
        """Tell the turn how long the model thought. An end under the garbage collector is not told."""
        if self._thinking is not None and not (garbage_collector.running and garbage_collector.runs_here()):
            with self.shield("model.thought"):
                self._thinking.end()

    async def note(self) -> None:
        """Write the calls of the reply to the store, for other replicas of a gateway, and wait until it is done."""
        store = self._reader.guard.store
        if store is not None and (self._notes or self._written):
            await background.on_loop(self._write(store))

    def note_later(self) -> None:
        """Do the same without waiting."""
        store = self._reader.guard.store
        if store is not None and (self._notes or self._written):
            background.run_later(self._write(store))

    async def _write(self, store: Store) -> None:
        await replica_calls.write(store, self._notes)
        if self._root is not None:
            await self._reader.seen.write(store, self._request.caller, self._root, self._written)

    def _note_end(self, reply: Reply) -> None:
        """Note if the model has answered: with that a turn of a message list ends."""
        one, scope = self._list, self._scope
        if reply.calls:
            if one is not None:  # a call that the request demanded may be the answer
                one.left_as = ANSWERED if self._sent.dialect.demands(self._sent.body) else CANCELLED
            return
        turn = one.turn if one is not None else None if scope is None or scope.call is not None else scope.turn
        if turn is not None:
            turn.answered()
            if one is not None and one.owns_turn:
                self._reader.runs.end_turn(turn)
                self.end = turn.ended_as
        elif one is not None:  # no tool was called
            self.end = ANSWERED

    def _measure(self, usage: Usage) -> None:
        """Record the metrics of the GenAI conventions, unless another instrumentation measures such requests."""
        dialect, providers = self._sent.dialect, self._reader.providers
        if dialect.operation not in providers.unmeasured:
            with self.shield("usage.book"):
                context = otel_context.get_current()
                providers.outlets().meters.inference(usage, dialect.operation, dialect.provider, context)

    def _learn(self, reply: Reply) -> None:
        """Note the calls of the reply: by them the message list of the next request is found."""
        one, now = self._list if self._list is not self._chat else None, self._reader.guard.clock()
        calls = [(call.id, call.name) for call in reply.calls if call.id is not None]
        names: list[Any] = [*calls]
        self._reader.unanswered.has_tools |= bool(reply.calls)
        if reply.id is not None:
            names.append(("reply", reply.id))
            if self._request.caller is not None:  # its client may know the reply by another id
                names += [("call", call_id) for call_id, _ in calls]
        usage = Usage.of(
            self._sent.model or reply.model or "", reply.input_tokens, reply.output_tokens, reply.cached_tokens
        )
        with self.shield("model.spend"):
            self._spend(of_reply(usage, self._reader.guard.compiled.prices.cost(usage)))
        self._measure(usage)
        self._note_end(reply)
        if one is None:
            if not reply.calls:
                self._reader.usage.response("", (), usage, otel_context.get_current())
                return
            one = self._list = MessageList(self._request.caller)
            one.follow(self._request.marks)
        if self._scope is not None and self._scope.call is None and one.turn is None:
            self._reader.join_turn(one, self._scope.turn)
        caller = self._request.caller
        with one.lock:
            is_late = one.whole != hash(tuple(self._request.marks))
            if caller is not None and reply.calls and (is_late or one.waits) and not one.has_read(reply.calls):
                # Another request has gone on with the list, or has its reply: this one has the reply of a branch.
                answered = self._reader.lists.answered(caller, reply.calls)
                is_late, self._list = answered is not None, answered or MessageList(caller)
                one = self._list
            if not is_late:
                one.reply(reply, now)
            call_ids = [*one.open_calls] if reply.calls and not is_late else [name for name, _ in calls]
        self._reader.lists.keep(one, names, now)
        latest.set(one)
        self._reader.usage.response(one.usage_key, call_ids, usage, otel_context.get_current())
        if caller is not None and self._thinking is not None:
            self._written = self._reader.seen.note(caller, reply.calls, self._thinking.seconds)
            self._root = one.root or self._request.first_drawn()
        if self._sent.dialect.is_kept and self._is_shared:
            self._notes = replica_calls.notes_of(self._reader.guard, one, self._request.caller, reply.calls)
        if is_late:  # the next request has come before a gateway reports this reply
            for name in one.verdicts.keys() & set(call_ids):
                self._reader.judged(one.turn, one.usage_key, name, is_loop=one.verdicts[name])


def _add(one: MessageList, number: int, sentence: str | None) -> None:
    """Add a sentence, if there is one, to the result of this number, after those that it has."""
    if sentence:
        one.sentences[number] = "\n".join(filter(None, [one.sentences.get(number), sentence]))


def _ending(decision: Decision, *, is_nudged: bool) -> str:
    """Return the word for the end of a call that has run."""
    if decision.record is not None and decision.record.error:
        return "failed"
    return "nudged" if is_nudged else "executed"
