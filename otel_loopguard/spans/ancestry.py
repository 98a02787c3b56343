"""Find the turn of a tool span: that of its conversation, else that of its agent's span, else that of its trace.

Only the span itself and those around it can tell. They arrive in any order, an agent's span after all that is inside
it, so the turn is asked for when a span is judged, and not when it arrives. Live judging and ``otel-loopguard replay``
both ask here.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from otel_loopguard.spans.dialects import same_tool

if TYPE_CHECKING:
    from otel_loopguard.spans.service_name import Service

MOST_SPANS: Final = 400_000
MOST_GUARDED: Final = 100_000
"""Traces."""
_DEEPEST: Final = 64
"""The levels that are climbed. A span that names itself as its parent ends there, too."""
TURNS_BY: Final = ("conversation", "agent_span", "trace")
"""The sources of a turn, the widest first."""


class TurnName(NamedTuple):
    """The identity of a turn. Equal for the spans of one turn."""

    source: str
    """One of ``TURNS_BY``, or ``own`` for a turn of the guard's own spans."""
    id: str
    service: Service | None = None
    """Of a conversation: two services may give theirs equal ids."""


class InTrace(Protocol):
    """A span of another instrumentation, whose turn is to be found."""

    @property
    def trace(self) -> str:
        """The id of its trace."""

    @property
    def parent(self) -> str:
        """The id of its parent."""

    @property
    def conversation(self) -> str | None:
        """The conversation that it names itself."""

    @property
    def service(self) -> Service:
        """The service that made it."""


class Around(NamedTuple):
    """The facts of a span that matter to the calls inside it. Most spans have none: their parent's id is kept."""

    parent: str
    conversation: str | None = None
    agent: str | None = None
    """The name of the agent, which may be empty; None if this is not the span of an agent's run."""
    tool: str | None = None
    """None if this is no tool call."""


_NONE: dict[str, str | Around] = {}


class Ancestry:
    """The spans of each trace, with their parents. Bounded: the trace without new spans for the longest time goes."""

    def __init__(self, turns_by: str = TURNS_BY[0], most: int = MOST_SPANS) -> None:
        """``turns_by`` is the widest source of turns."""
        self._by_conversation = turns_by == "conversation"
        self._by_agent = turns_by != "trace"
        self._most = most
        self._traces: OrderedDict[str, dict[str, str | Around]] = OrderedDict()
        self._held = 0
        self.seen = 0
        """The number of all spans."""
        self._guarded: dict[str, None] = {}

    def __len__(self) -> int:
        return self._held

    def add(self, trace: str, span: str, around: str | Around) -> None:
        """Add a span: its parent's id, or what it says about the calls inside it."""
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
        """Forget the oldest trace, or the older half of the only one."""
        trace, spans = self._traces.popitem(last=False)
        self._held -= len(spans)
        if not self._traces:
            kept = dict(islice(spans.items(), len(spans) // 2 + 1, None))
            self._traces[trace] = kept
            self._held += len(kept)

    def guard(self, trace: str) -> None:
        """Note that the spans of the guard tell of all calls in a trace: other spans of calls there are not counted."""
        self._guarded[trace] = None
        if len(self._guarded) > MOST_GUARDED:
            del self._guarded[next(iter(self._guarded))]

    def is_guarded(self, trace: str) -> bool:
        """Return True if the guard has the calls of this trace."""
        return trace in self._guarded

    def spans_in(self, trace: str) -> int:
        """Return the number of spans of a trace that are known."""
        return len(self._traces.get(trace, _NONE))

    def is_inner(self, span: InTrace, tool: str) -> bool:
        """Return True if the span around that of a tool call is of the same tool: both are of one call."""
        found = self._traces.get(span.trace, _NONE).get(span.parent)
        return type(found) is Around and same_tool(tool, found.tool)

    def turn_of(self, span: InTrace) -> TurnName:
        """Return the turn of a span of another instrumentation, as far as the spans around it have arrived."""
        conversation, agent, _ = self._above(span)
        if conversation is not None and self._by_conversation:
            return TurnName("conversation", conversation, span.service)
        if agent and self._by_agent:
            return TurnName("agent_span", f"{span.trace}:{agent}")
        return TurnName("trace", span.trace)

    def above(self, span: InTrace) -> list[str]:
        """Return the ids of the spans around this one. The last one has not arrived, unless it is the empty id."""
        spans, found = self._traces.get(span.trace, _NONE), [span.parent]
        while len(found) < _DEEPEST and (around := spans.get(found[-1])) is not None:
            found.append(around.parent if isinstance(around, Around) else around)
        return found

    def agent_of(self, span: InTrace) -> tuple[str | None, str | None]:
        """Return the conversation of a call and the name of its agent, as far as they are known."""
        conversation, _, name = self._above(span)
        return conversation, name

    def _above(self, span: InTrace) -> tuple[str | None, str, str | None]:
        """Return the nearest conversation, the agent's span, and the name of the nearest agent.

        The agent's span is the outermost one. A call inside a tool call belongs to the agents inside that call, if
        there are any: an agent may be used as a tool.
        """
        conversation, agent, name, above_tool = span.conversation, "", None, False
        spans = self._traces.get(span.trace, _NONE)
        parent = span.parent
        for _ in range(_DEEPEST):
            found = spans.get(parent)
            if found is None:
                break
            if not isinstance(found, Around):
                parent = found
                continue
            conversation = conversation or found.conversation
            if found.agent is not None and not above_tool:
                agent = parent
            name = name or found.agent
            above_tool = above_tool or (found.tool is not None and bool(agent))
            parent = found.parent
        return conversation, agent, name or None
