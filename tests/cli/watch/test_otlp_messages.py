"""Gzip bodies are unpacked as far as there is memory."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from otel_loopguard.cli.watch.budget import Budget, FullError, OverBudgetError
from otel_loopguard.cli.watch.otlp_messages import MalformedError, gunzip


def test_a_body_is_unpacked_and_its_share_has_its_size() -> None:
    """Nothing is kept for the packed one."""
    body = bytes(range(256)) * 8_000
    budget = Budget(10_000_000)
    with budget.share() as share:
        assert gunzip(gzip.compress(body), share) == body
        assert budget.used == len(body)


@pytest.mark.parametrize(("taken", "error"), [(0, OverBudgetError), (900_000, FullError)])
def test_a_bomb_takes_no_more_memory_than_there_is(taken, error) -> None:
    """A hundred kilobytes of a hundred megabytes: it ends at the budget, and what it had is free again."""
    bomb, budget = gzip.compress(bytes(100_000_000)), Budget(1_000_000)
    with budget.share() as others:
        others.resize(taken)
        tracemalloc.start()
        try:
            with pytest.raises(error), budget.share() as share:
                gunzip(bomb, share)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert budget.used == taken

    assert peak < 3_000_000


@pytest.mark.parametrize(
    ("packed", "reason"),
    [(b"no gzip", "no gzip"), (b"", "end"), (gzip.compress(b"0123456789" * 99, mtime=0)[:-9], "end")],
)
def test_a_broken_body_is_malformed(packed, reason) -> None:
    """The half of one is no message."""
    with Budget(100_000).share() as share, pytest.raises(MalformedError, match=reason):
        gunzip(packed, share)
