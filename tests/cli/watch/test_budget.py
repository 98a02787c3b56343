"""The budget of memory: shares take before they use, and give all back."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.watch.budget import Budget, FullError, OverBudgetError


def test_shares_never_have_more_than_the_budget_together() -> None:
    """What does not fit is refused, and a smaller one is taken."""
    budget = Budget(100)
    with budget.share() as first, budget.share() as second:
        first.resize(60)
        with pytest.raises(FullError):
            second.resize(41)
        second.resize(40)
        assert budget.used == 100
        first.resize(10)
        second.resize(90)
        assert budget.used == 100

    assert budget.used == 0


def test_a_share_that_is_refused_keeps_what_it_had() -> None:
    """It gives that back at its end, once."""
    budget = Budget(100)
    with budget.share() as first, budget.share() as second:
        first.resize(60)
        second.resize(40)
        with pytest.raises(FullError):
            second.resize(50)
        assert second.size == 40

    assert budget.used == 0


def test_more_than_the_budget_is_too_large_and_not_only_for_now() -> None:
    """It makes no sense to send it again."""
    with Budget(100).share() as share, pytest.raises(OverBudgetError, match="100 bytes"):
        share.resize(101)


def test_room_that_is_made_is_used() -> None:
    """It is asked for as many bytes as are missing."""
    budget, asked = Budget(100), []
    slow, quick = budget.share(), budget.share()
    slow.resize(80)

    def make_room(missing: int) -> bool:
        asked.append(missing)
        slow.close()
        return True

    budget.make_room = make_room
    quick.resize(50)

    assert asked == [30]
    assert budget.used == 50
