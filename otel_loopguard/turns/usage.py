"""Count each model request, with its tokens, as a step of a loop or as work, once its calls are judged.

A request is a step of a loop if each call in its response was refused, or was a repeat without news. A response without
calls is work, and so is one with a call that was not judged by the end of the turn.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_loopguard.engine.vocabulary import Usage

MOST_RESPONSES = 10_000
MOST_CALLS = 1_000


class CountRequest(Protocol):
    """Counts a model request. It is called outside of every lock."""

    def __call__(self, usage: Usage, context: Any, *, is_loop: bool) -> None:
        """Count one model request, as a step of a loop or as work. ``context`` is the one of its response."""


class _Response:
    __slots__ = ("context", "first", "turn_id", "unjudged", "usage")

    def __init__(self, turn_id: str, call_ids: dict[str, None], usage: Usage, context: Any) -> None:
        self.turn_id = turn_id
        self.first = next(iter(call_ids))
        self.unjudged = call_ids
        self.usage = usage
        self.context = context


class UsageLedger:
    """The model requests that are not counted yet, by the ids of the calls in their responses.

    At most 10,000 requests wait until their calls are judged, each for its first 1,000 calls. With one more, the oldest
    is counted as work.
    """

    def __init__(self, book: CountRequest) -> None:
        self._book = book
        self.clear()

    def clear(self) -> None:
        """Forget all, with a new lock: after a fork the thread that held the old one is gone."""
        self._lock = threading.RLock()
        self._waiting: dict[_Response, None] = {}
        """The responses in the order of their arrival."""
        self._by_turn: dict[str, dict[str, _Response]] = {}

    def response(self, turn_id: str, call_ids: Sequence[str], usage: Usage, context: Any) -> None:
        """Take the usage of a response, and the ids of the calls in it. A response without calls is work."""
        if not call_ids:
            self._book(usage, context, is_loop=False)
            return
        response = _Response(turn_id, dict.fromkeys(call_ids[:MOST_CALLS]), usage, context)
        with self._lock:
            calls = self._by_turn.get(turn_id, _NO_CALLS)
            # Some servers number the calls of each response from 0: an earlier call of that id will not be judged.
            over = dict.fromkeys(calls[call_id] for call_id in response.unjudged if call_id in calls)
            if len(self._waiting) >= MOST_RESPONSES:
                over[next(iter(self._waiting))] = None
            for one in over:
                self._remove(one)
            self._waiting[response] = None
            self._by_turn.setdefault(turn_id, {}).update(dict.fromkeys(response.unjudged, response))
        self._book_as_work(over)

    def written_first(self, turn_id: str, call_id: str) -> Usage | None:
        """Return the usage of the response with this call, if the call is its first; else None."""
        response = self._by_turn.get(turn_id, _NO_CALLS).get(call_id)
        return response.usage if response is not None and response.first == call_id else None

    def judged(self, turn_id: str, call_id: str, *, is_loop: bool) -> Usage | None:
        """Note that a call is judged. ``is_loop``: it was refused, or was a repeat without news.

        Return the usage of its request if that is known now to be a step of a loop.
        """
        if turn_id not in self._by_turn:
            return None
        with self._lock:
            response = self._by_turn.get(turn_id, _NO_CALLS).get(call_id)
            if response is None:
                return None
            if is_loop and len(response.unjudged) > 1:
                self._forget_call(response, call_id)
                return None
            self._remove(response)
        self._book(response.usage, response.context, is_loop=is_loop)
        return response.usage if is_loop else None

    def rename(self, turn_id: str, new: str) -> None:
        """Move the responses of a turn to the turn's new id."""
        with self._lock:
            calls = self._by_turn.pop(turn_id, None)
            if calls:
                for response in calls.values():
                    response.turn_id = new
                self._by_turn.setdefault(new, {}).update(calls)

    def close(self, turn_id: str) -> None:
        """Count the responses of a turn that is over as work: each has a call that was not judged."""
        if turn_id not in self._by_turn:
            return
        with self._lock:
            left = dict.fromkeys(self._by_turn.get(turn_id, _NO_CALLS).values())
            for response in left:
                self._remove(response)
        self._book_as_work(left)

    def _book_as_work(self, responses: Iterable[_Response]) -> None:
        for response in responses:
            self._book(response.usage, response.context, is_loop=False)

    def _remove(self, response: _Response) -> None:
        self._waiting.pop(response, None)
        for call_id in list(response.unjudged):
            self._forget_call(response, call_id)

    def _forget_call(self, response: _Response, call_id: str) -> None:
        response.unjudged.pop(call_id, None)
        calls = self._by_turn.get(response.turn_id, {})
        calls.pop(call_id, None)
        if not calls:
            self._by_turn.pop(response.turn_id, None)


_NO_CALLS: dict[str, _Response] = {}
