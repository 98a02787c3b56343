"""The encryption of texts in the store."""

from __future__ import annotations

import pytest

from otel_loopguard.store.seal import Seal

SEAL = Seal(b"a key of the deployment")


@pytest.mark.parametrize("text", ["", "stop", "ünïcødé 🙂", "half a pair \ud83d", "x" * 100_000])
def test_a_text_comes_back(text):
    assert Seal(b"a key of the deployment").unseal(SEAL.seal(text)) == text


def test_a_text_is_not_readable_and_differs_each_time():
    sealed = [SEAL.seal("stop the agent") for _ in range(2)]
    assert b"stop" not in sealed[0]
    assert sealed[0] != sealed[1]


@pytest.mark.parametrize(
    "change",
    [lambda one: one[:20] + bytes([one[20] ^ 1]) + one[21:], lambda one: one[:8], lambda one: one[1:], lambda _: b""],
)
def test_a_changed_text_is_refused(change):
    assert SEAL.unseal(change(SEAL.seal("stop"))) is None


def test_another_key_reads_nothing():
    assert Seal(b"another key").unseal(SEAL.seal("stop")) is None
