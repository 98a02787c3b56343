"""default: the documented detection, without changes."""

from __future__ import annotations

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.policy_files.load import load_preset, preset_names

from .driver import Driven

NAMES = {
    "default", "chat_turn", "recipe_step", "typed_window", "repeat_hint", "repeat_abort", "turn_nudge", "local_reads",
}  # fmt: skip


def test_there_are_eight():
    """Eight presets come with the package, and all of them are valid."""
    assert set(preset_names()) == NAMES
    assert all(load_preset(name).problems == () for name in NAMES)


def test_it_is_the_policy_of_one_who_says_nothing():
    """The preset equals Policy()."""
    assert load_preset("default").policy == Policy()


def test_an_equal_result_is_nudged_then_refused():
    """The second equal result is nudged, the third call refused; results that differ are left alone."""
    driven = Driven("default")
    driven("read_file", {"path": "a"}, result="same")
    driven("read_file", {"path": "a"}, result="same")
    assert driven.nudge
    assert not driven.runs("read_file", {"path": "a"}, result="same")
    assert all(driven.runs("read_file", {"path": "b"}) for _ in range(7))
