"""The connections of the HTTP receiver, as pairs of sockets: which of them is dropped, and when."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, Budget
from otel_loopguard.cli.watch.http_connections import Connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Table:
    """Three places, a clock that stands, and a budget for the requests."""

    def __init__(self, closing: ExitStack) -> None:
        self.now = 0.0
        self.budget = Budget(100)
        self.connections = Connections(3, lambda: self.now)
        self._closing = closing

    def add(self, size: int = 0) -> Callable[[], bool]:
        """Add a connection whose request has so many bytes. The function returns True if it was dropped."""
        here, there = socket.socketpair()
        self._closing.enter_context(here)
        self._closing.enter_context(there)
        there.settimeout(30)
        assert self.connections.add(here)
        one = self.connections.get(here)
        one.share = self.budget.share()
        one.share.resize(size)
        return lambda: one.dropped and there.recv(1) == b""


@pytest.fixture
def table() -> Iterator[Table]:
    """A table without connections."""
    with ExitStack() as closing:
        yield Table(closing)


def test_the_one_that_waits_for_the_longest_time_goes_first(table) -> None:
    """It is the one that came first, as long as none was answered."""
    dropped = [table.add() for _ in range(5)]

    assert [one() for one in dropped] == [True, True, False, False, False]


def test_no_room_is_made_for_more_than_the_slow_ones_have(table) -> None:
    """None is dropped in vain."""
    dropped = [table.add(20), table.add(30)]
    table.now = PATIENCE_SECONDS

    assert not table.connections.make_room(51)
    assert not any(one() for one in dropped)


def test_no_more_are_dropped_than_room_is_needed_for(table) -> None:
    """The oldest ones go, and those that have nothing stay."""
    dropped = [table.add(), table.add(20), table.add(30)]
    table.now = PATIENCE_SECONDS

    assert table.connections.make_room(15)
    assert [one() for one in dropped] == [False, True, False]


def test_a_request_has_some_time_before_it_makes_room(table) -> None:
    """The patience is counted from the begin of its body."""
    dropped = table.add(50)
    table.now = PATIENCE_SECONDS / 2

    assert not table.connections.make_room(10)
    assert not dropped()


def test_one_that_was_dropped_cannot_hand_in_its_message(table) -> None:
    """Nobody would get the answer, so its sender sends it again."""
    here, there = socket.socketpair()
    with here, there:
        table.connections.add(here)
        one = table.connections.get(here)
        for _ in range(3):
            table.add()

        with pytest.raises(ConnectionResetError):
            table.connections.works(one)


def test_none_is_dropped_while_its_message_is_taken(table) -> None:
    """If all are at work, a new one is refused."""
    with ExitStack() as closing:
        for _ in range(3):
            here, there = socket.socketpair()
            closing.enter_context(here)
            closing.enter_context(there)
            assert table.connections.add(here)
            table.connections.works(table.connections.get(here))
        new, other = socket.socketpair()
        closing.enter_context(new)
        closing.enter_context(other)

        assert not table.connections.add(new)
