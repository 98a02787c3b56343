"""A weak dictionary by identity."""

from __future__ import annotations

import gc

from otel_loopguard.telemetry.weak_by_identity import WeakByIdentity


class Equal:
    """An object that equals all others, and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_each_object_has_its_own_value_until_it_is_gone() -> None:
    """Equal objects are not mixed up, and one that is gone is forgotten."""
    found: WeakByIdentity[str] = WeakByIdentity()
    one, two = Equal(), Equal()
    found.put(one, "one")
    assert (found.get(one), found.get(two)) == ("one", None)
    found.put(two, "two")
    assert sorted(value for _, value in found.pairs()) == ["one", "two"]
    del one
    gc.collect()
    assert [value for _, value in found.pairs()] == ["two"]
