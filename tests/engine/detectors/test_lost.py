"""A result that the model lost is read again: told at the third loss, under the name of ``generic_repeat``."""

from __future__ import annotations

from .driver import Driven


def test_a_third_loss_of_a_result_is_told_and_not_refused():
    """The model's context lost the result: reading it again is no loop, until it goes on."""
    driven = Driven()
    for _ in range(6):
        decision = driven(path="a")
        driven.turn.lose([decision.record.key])
    assert (driven.told(), driven.refused()) == ([4], [])
    assert driven.said[3].decision.message == (
        "[loopguard] You have read this 3 times and lost it to the context limit. Write down what you need."
    )
