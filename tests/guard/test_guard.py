"""The guard makes turns, finds them again by their id, and changes its policy."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import otel_loopguard.engine
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import PREFIX


def make(turn, tool="read_file", result="same", **arguments):
    """Make one call from begin to end. Return the decision of the end, or the refusal."""
    call = ToolCall(tool, arguments)
    decision = turn.begin(call)
    return turn.end(call, Outcome(result)) if decision.runs else decision


def modes(module):
    """Return all modules of the core."""
    return [info.name for info in pkgutil.walk_packages(module.__path__, module.__name__ + ".")]


@pytest.mark.parametrize("name", modes(otel_loopguard.engine))
def test_the_examples_in_docstrings_hold(name):
    """The examples in docstrings have the results that they show."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_a_new_policy_is_for_new_turns():
    """Live turns keep their policy, and fingerprints stay comparable."""
    guard = Guard()
    old = guard.turn("old")
    fingerprint = old.begin(ToolCall("x", {"a": 1})).record.arguments_hash
    guard.use(Policy(action=Action.OBSERVE))
    new = guard.turn("new")
    assert new.begin(ToolCall("x", {"a": 1})).record.arguments_hash == fingerprint
    assert [make(old, path="a").action for _ in range(3)][-1] is Action.BLOCK
    assert [make(new, path="a").action for _ in range(3)][-1] is Action.OBSERVE


def test_turns_are_found_by_id_and_bounded():
    """The least recently used turn goes first, and turns that were idle for an hour."""
    now = [0.0]
    guard = Guard(clock=lambda: now[0])
    guard._turns._most = 4
    first = guard.turn("a")
    assert guard.turn("a") is first
    make(first, path="a")
    del first
    for name in "bcde":
        guard.turn(name)
    assert guard.live == 4
    assert guard.turn("b").calls == guard.turn("a").calls == 0  # "a" was dropped, and began again
    held = guard.turn("d")
    now[0] = 3_601.0
    assert guard.turn("d") is not held
    with guard.turn("e") as ended:
        make(ended, path="a")
    assert guard.turn("e").calls == 0


LOOK = ToolCall("look", {"path": "a"})


def test_two_guards_have_the_hash_key_of_the_environment(monkeypatch, tmp_path):
    """So a turn goes on in another process. A key in code comes first, and a policy that comes later has it, too."""
    file = tmp_path / "key"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    for name, value in (("HASH_KEY", "0123456789abcdef"), ("HASH_KEY_FILE", str(file))):
        with monkeypatch.context() as patch:
            patch.setenv(PREFIX + name, value)
            one, other = Guard(), Guard(Policy(max_calls=9))
            other.use(Policy(max_calls=10))
            hashes = {guard.turn().begin(LOOK).record.arguments_hash for guard in (one, other)}
            assert len(hashes) == 1
            of_code = Guard(Policy(hash_key=b"fedcba9876543210"))
            assert of_code.turn().begin(LOOK).record.arguments_hash not in hashes


def test_a_hash_key_that_cannot_be_read_is_told_once(monkeypatch, caplog, tmp_path):
    """The guard goes on with a random key."""
    monkeypatch.setenv(PREFIX + "HASH_KEY_FILE", str(tmp_path / "none"))
    guard = Guard()
    guard.use(Policy(max_calls=9))
    assert caplog.text.count("the file of the hash key cannot be read") == 1
    assert guard.policy.hash_key is None
