"""The encryption of what is kept on a server."""

from __future__ import annotations

import pytest

from otel_loopguard.store.seal import Seal

SEAL = Seal(b"a key of the deployment")


@pytest.mark.parametrize("data", [b"", b"stop", b"x" * 100_000])
def test_data_comes_back(data):
    assert Seal(b"a key of the deployment").unseal(SEAL.seal(data, b"place"), b"place") == data


def test_data_is_not_readable_and_differs_each_time():
    sealed = [SEAL.seal(b"stop the agent") for _ in range(2)]
    assert b"stop" not in sealed[0]
    assert sealed[0] != sealed[1]


@pytest.mark.parametrize(
    "change",
    [lambda one: one[:20] + bytes([one[20] ^ 1]) + one[21:], lambda one: one[:8], lambda one: one[1:], lambda _: b""],
)
def test_changed_data_is_refused(change):
    assert SEAL.unseal(change(SEAL.seal(b"stop"))) is None


def test_another_key_reads_nothing_and_no_key_reads_what_was_put_elsewhere():
    assert Seal(b"another key").unseal(SEAL.seal(b"stop")) is None
    assert SEAL.unseal(SEAL.seal(b"stop", b"here"), b"there") is None
