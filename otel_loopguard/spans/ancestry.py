"""Find the turn of a tool span: the turn of its conversation, else of its agent's span, else of its trace.

The span and the spans around it tell the turn. Spans arrive in any order, an agent's span after all spans inside it, so
the turn is looked up when a span is judged, not when it arrives. ``otel-loopguard watch`` and ``replay`` both do so.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from otel_loopguard.spans.dialects import same_tool
from otel_loopguard.spans.service_name import NO_SERVICE, Service

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_loopguard.engine.ledger import Ledger

MOST_SPANS: Final = 400_000
MOST_GUARDED: Final = 100_000
"""Traces with spans of the guard."""
MOST_ENDED: Final = 100_000
"""Turns of which the end is remembered."""
_DEEPEST: Final = 64
"""The most parents to follow. It also bounds a span that names itself as its parent."""
TURNS_BY: Final = ("conversation", "agent_span", "trace")
"""The sources of a turn, the widest first."""


class TurnName(NamedTuple):
    """The identity of a turn: equal for all spans of the turn."""

    source: str
    """One of ``TURNS_BY``, or ``own`` for a turn of the guard's own spans."""
    id: str
    service: Service | None = None
    """The service, if the source is ``conversation``: two services may give two conversations one id. Else None."""


class InTrace(Protocol):
    """The span of a call or a model request, of another instrumentation, as far as its turn depends on it."""

    @property
    def trace(self) -> str:
        """The id of its trace."""

    @property
    def parent(self) -> str:
        """The id of its parent; empty for the root of a trace."""

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that the span itself has; None if it has none."""

    @property
    def service(self) -> Service:
        """The service that made it."""


class SpanAround(NamedTuple):
    """The facts of a span that matter to the calls inside it. Of a span without such facts only the parent is kept."""

    parent: str
    conversation: str | None = None
    agent: str | None = None
    """The name of the agent, which may be empty; None if this is not the span of an agent's run."""
    tool: str | None = None
    """The name of the tool; None if this is no tool call."""
    is_request: bool = False
    """True if this is a model request."""


class CallAround(NamedTuple):
    """A tool call that has an agent's run inside, as far as its turn depends on it."""

    span: str
    """Its id."""
    trace: str
    parent: str
    conversation: str | None
    service: Service = NO_SERVICE


_NONE: dict[str, str | SpanAround] = {}


class Ancestry:
    """The spans of each trace, with their parents. Beyond the bound the trace without new spans for longest goes."""

    def __init__(self, turns_by: str = TURNS_BY[0], most: int = MOST_SPANS) -> None:
        """Take the widest source of turns, one of ``TURNS_BY``, and the most spans to keep."""
        self._by_conversation = turns_by == "conversation"
        self._by_agent = turns_by != "trace"
        self._most = most
        self._traces: OrderedDict[str, dict[str, str | SpanAround]] = OrderedDict()
        self._held = 0
        self.seen = 0
        """The number of spans that were added."""
        self._guarded: dict[str, None] = {}
        self.ends: dict[str, str] = {}
        """How the guard's own turns ended, by their ids."""
        self.ledgers: dict[str, Ledger] = {}
        """What they spent, as their spans tell it: with their nested turns, and without calls."""
        self.asked: dict[str, list[Mapping[str, Any]]] = {}
        """The attributes of the trips on their spans: those of model requests."""

    def __len__(self) -> int:
        return self._held

    def add(self, trace: str, span: str, around: str | SpanAround) -> None:
        """Add a span: ``around`` is the id of its parent, or an ``SpanAround`` if it matters to the calls inside it."""
        self.seen += 1
        spans = self._traces.get(trace)
        if spans is None:
            spans = self._traces[trace] = {}
        else:
            self._traces.move_to_end(trace)
        before = len(spans)
        spans[span] = around
        self._held += len(spans) - before
        while self._held > self._most:
            self._forget()

    def _forget(self) -> None:
        """Forget the trace without new spans for longest; of the only trace, the older half."""
        trace, spans = self._traces.popitem(last=False)
        self._held -= len(spans)
        if not self._traces:
            kept = dict(islice(spans.items(), len(spans) // 2 + 1, None))
            self._traces[trace] = kept
            self._held += len(kept)

    def guard(self, trace: str) -> None:
        """Note that a trace has the guard's own spans of its calls: others of the same calls do not count there."""
        self._guarded[trace] = None
        if len(self._guarded) > MOST_GUARDED:
            del self._guarded[next(iter(self._guarded))]

    def end_turn(
        self, turn: str, how: str, ledger: Ledger | None = None, asked: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Note how one of the guard's own turns ended, its ledger, and the trips of its model requests.

        If it went on after that, the last end counts. ``ledger``: None if its span has none.
        """
        self.ends[turn] = how
        if ledger is not None:
            self.ledgers[turn] = ledger
        if trips := list(asked):
            self.asked[turn] = trips
        known: dict[str, Any]
        for known in (self.ends, self.ledgers, self.asked):
            if len(known) > MOST_ENDED:
                del known[next(iter(known))]

    def is_guarded(self, trace: str) -> bool:
        """Return True if this trace has the guard's own spans of its calls."""
        return trace in self._guarded

    def spans_in(self, trace: str) -> int:
        """Return the number of known spans of a trace."""
        return len(self._traces.get(trace, _NONE))

    def is_inner(self, span: InTrace, tool: str) -> bool:
        """Return True if the parent of a call's span is a span of the same tool: both are of one call."""
        found = self._traces.get(span.trace, _NONE).get(span.parent)
        return type(found) is SpanAround and same_tool(tool, found.tool)

    def is_in_request(self, span: InTrace) -> bool:
        """Return True if a span is inside a model request: a framework and its client both have a span of it.

        False inside of a tool call or an agent's run that is in that request: it is another one.
        """
        spans = self._traces.get(span.trace, _NONE)
        for one in map(spans.get, self.above(span)):
            if isinstance(one, SpanAround) and (one.is_request or one.agent is not None or one.tool is not None):
                return one.is_request
        return False

    def is_in_tool(self, span: InTrace) -> bool:
        """Return True if a span is inside a tool call, and not of an agent in there: it is work of the tool."""
        spans = self._traces.get(span.trace, _NONE)
        for one in map(spans.get, self.above(span)):
            if isinstance(one, SpanAround) and (one.agent is not None or one.tool is not None):
                return one.agent is None
        return False

    def turn_of(self, span: InTrace) -> TurnName:
        """Return the turn of a span, as far as the spans around it have arrived."""
        conversation, agent, _ = self._above(span)
        if conversation is not None and self._by_conversation:
            return TurnName("conversation", conversation, span.service)
        if agent and self._by_agent:
            return TurnName("agent_span", f"{span.trace}:{agent}")
        return TurnName("trace", span.trace)

    def above(self, span: InTrace) -> list[str]:
        """Return the ids of the spans around this one, the nearest first. The last one is empty, or has not arrived."""
        spans, found = self._traces.get(span.trace, _NONE), [span.parent]
        while len(found) < _DEEPEST and (around := spans.get(found[-1])) is not None:
            found.append(around.parent if isinstance(around, SpanAround) else around)
        return found

    def turns_around(self, turn: TurnName, span: InTrace) -> list[tuple[TurnName, CallAround]]:
        """Return the turns that a turn is nested in, the nearest first, each with its call that it is nested in.

        ``span``: any one of the turn. All agents of a conversation are one turn, so none of them is nested.
        """
        found: list[tuple[TurnName, CallAround]] = []
        place: InTrace = span
        while len(found) < _DEEPEST:
            outer, parent = None, place.parent
            if turn.source == "own":
                outer, _, number = turn.id.rpartition("/")
                outer = outer if number.isdecimal() else None
            elif turn.source == "agent_span":
                outer = parent = turn.id.rpartition(":")[2]
            call = self._call_around(place.trace, parent) if outer else None
            if call is None:
                return found
            turn = TurnName("own", outer) if turn.source == "own" else self.turn_of(call)  # type: ignore[arg-type]  # not None, as there is a call
            found.append((turn, call))
            place = call
        return found

    def _call_around(self, trace: str, span: str) -> CallAround | None:
        """Return the nearest tool call among a span and those around it; None if there is none."""
        spans = self._traces.get(trace, _NONE)
        for one in self.above(CallAround("", trace, span, None)):
            found = spans.get(one)
            if isinstance(found, SpanAround) and found.tool is not None:
                return CallAround(one, trace, found.parent, found.conversation)
        return None

    def agent_of(self, span: InTrace) -> tuple[str | None, str | None]:
        """Return the conversation of a call and the name of its agent; None for what is not known."""
        conversation, _, name = self._above(span)
        return conversation, name

    def _above(self, span: InTrace) -> tuple[str | None, str, str | None]:
        """Return the nearest conversation, the id of the outermost agent's span, and the name of the nearest agent.

        Agents outside of a tool call that has an agent inside do not count: that agent is used as a tool.
        """
        conversation, agent, name, above_tool = span.conversation, "", None, False
        spans = self._traces.get(span.trace, _NONE)
        parent = span.parent
        for _ in range(_DEEPEST):
            found = spans.get(parent)
            if found is None:
                break
            if not isinstance(found, SpanAround):
                parent = found
                continue
            conversation = conversation or found.conversation
            if found.agent is not None and not above_tool:
                agent = parent
            name = name or found.agent
            above_tool = above_tool or (found.tool is not None and bool(agent))
            parent = found.parent
        return conversation, agent, name or None
