"""Judge the requests that pass a proxy, and learn from the replies.

A request has all calls and results so far, so the stream of a reply is never touched. The reply is read when the proxy
logs it: for the time at which its calls were written, for the time that the model thought, and for its tokens.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace

from otel_loopguard.errors import RunStopped
from otel_loopguard.gateway.callers import caller_of, headers_of
from otel_loopguard.guard.ending import ABORTED
from otel_loopguard.instrumentation.model_api import JUDGED, Sent
from otel_loopguard.instrumentation.model_request import own
from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from otel_loopguard.guard.ending import End
    from otel_loopguard.instrumentation.model_api import Dialect, Listener
    from otel_loopguard.instrumentation.model_reader import Exchange
    from otel_loopguard.instrumentation.runtime import Runtime

END: Final = "x-loopguard-end"
"""The header of a response that tells how its turn ended. A reply with calls has none, nor has a streamed one."""
REFUSED: Final = {END: ABORTED}
"""The headers of the answer to a request whose turn is ended."""
_DIALECTS: Final[dict[str, Dialect]] = {
    "completion": CHAT,
    "acompletion": CHAT,
    "responses": RESPONSES,
    "aresponses": RESPONSES,
    "anthropic_messages": MESSAGES,
}
"""The API of each of the proxy's kinds of request that may have tool calls."""


class _Pending:
    """A request that waits for its reply."""

    def __init__(self, exchange: Exchange, call_id: Any) -> None:
        self.exchange: Exchange | None = exchange
        self.end: End | None = None
        self.call_id = call_id
        """The proxy's id of the request. A client may choose it, so it only tells apart the requests of one task."""


_pending: ContextVar[_Pending | None] = ContextVar("loopguard_gateway_request", default=None)
"""The request of the running task."""


async def judge(auth: Any, data: MutableMapping[str, Any], kind: str) -> RunStopped | None:
    """Read a request, and change it in place if its calls are a loop. Return the error if its turn is ended, else None.

    ``auth`` is the caller as the proxy knows it, ``kind`` is the proxy's word for the API. After a fault of this
    package the request is as the client sent it.
    """
    with Shield()("gateway.runtime"):
        dialect, runtime = _DIALECTS.get(kind), active_runtime.get()
        if dialect is not None and not runtime.off:
            return await _judge(runtime, dialect, auth, data)
    return None


async def _judge(runtime: Runtime, dialect: Dialect, auth: Any, data: MutableMapping[str, Any]) -> RunStopped | None:
    exchange: Exchange | None = None
    headers: Mapping[str, Any] = {}
    with runtime.shield("gateway.read"):
        own()
        _pending.set(None)
        headers = headers_of(data)
        if JUDGED in headers:
            return None
        sent = Sent(dialect, data, str(data.get("model", "")), lambda changed: ((), dict(changed)), _as_it_is)
        exchange = runtime.reader.open(sent, caller_of(auth, headers))
        _pending.set(_Pending(exchange, data.get("litellm_call_id")))
    if exchange is None:
        return None
    try:
        with runtime.shield("gateway.judge"):
            token = otel_context.attach(_context_of(headers))
            try:
                await exchange.ajudge_calls()
            finally:
                otel_context.detach(token)
        with runtime.shield("gateway.change"):
            _, changed = exchange.prepare(lambda: RunStopped, (), data)
            data.update({name: value for name, value in changed.items() if value is not data.get(name)})
    except RunStopped as error:
        return error
    return None


def _as_it_is(reply: Any, _: Listener) -> Any:
    return reply


def _context_of(headers: Mapping[str, Any]) -> otel_context.Context:
    """Return the context of the spans: the proxy's own span if it has one, else the span of the caller."""
    context = otel_context.get_current()
    if trace.get_current_span(context).get_span_context().is_valid:
        return context
    return propagate.extract(headers, context)


def learn(reply: Any, call_id: Any) -> None:
    """Take the reply to the request of the running task. ``call_id``: the proxy's id of the request."""
    with Shield()("gateway.runtime"):
        exchange = _learnt(reply, call_id)
        if exchange is not None:
            exchange.note_later()


async def alearn(reply: Any, call_id: Any) -> None:
    """Do the same before the client has the reply, so that every replica knows its calls by the next request."""
    with Shield()("gateway.runtime"):
        exchange = _learnt(reply, call_id)
        if exchange is not None:
            await exchange.note()


def headers_of_reply(call_id: Any) -> dict[str, str] | None:
    """Return the headers for the reply that the running task has taken; None if its turn goes on, or is not known."""
    pending = _pending.get()
    return None if pending is None or pending.end is None or call_id != pending.call_id else {END: pending.end}


def fail(call_id: Any) -> None:
    """Note that the request of the running task has failed. ``call_id``: the proxy's id of the request."""
    with Shield()("gateway.runtime"):
        pending = _pending.get()
        if pending is not None and pending.exchange is not None and call_id == pending.call_id:
            pending.exchange.failed()


def _learnt(reply: Any, call_id: Any) -> Exchange | None:
    """Take a reply. Return the exchange that it ends; None if it is not the reply that the task waits for."""
    pending = _pending.get()
    if pending is None or pending.exchange is None or call_id != pending.call_id:
        return None
    exchange, pending.exchange = pending.exchange, None
    with exchange.shield("gateway.reply"):
        exchange.whole(reply)
        pending.end = exchange.end
    return exchange
