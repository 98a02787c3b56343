"""The sources of a policy: preset below file below environment, setting by setting."""

from __future__ import annotations

import logging

import pytest

from otel_loopguard import environment_variables
from otel_loopguard.core.model import Action, Kind
from otel_loopguard.core.policy.load import VARIABLES, load_environment, load_text
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.instrumentation.runtime import policy_from_environment

PREFIX = "OTEL_PYTHON_LOOPGUARD_"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "loop.toml"
    path.write_text('preset = "chat_turn"\naction = "nudge"\n[tools.read_file]\ncap = 9\n')
    return path


def test_a_later_source_wins_setting_by_setting(file):
    """The file overrides single settings of its preset, the environment those of the file; each origin is known."""
    loaded = load_environment({PREFIX + "CONFIG": str(file), PREFIX + "ACTION": "Observe "})
    assert loaded.problems == loaded.notes == ()
    assert (loaded.policy.action, loaded.origins["action",]) == (Action.OBSERVE, PREFIX + "ACTION")
    assert loaded.policy.tools["read_file"].cap == 9
    assert loaded.origins["tools", "read_file", "cap"] == f"{file}, line 4"
    assert loaded.policy.tools["write_file"].cap == 2
    assert loaded.origins["tools", "write_file", "cap"] == "preset chat_turn"


def test_the_preset_of_the_environment_replaces_that_of_the_file(file):
    """PRESET is the preset below the file, whatever the file names."""
    loaded = load_environment({PREFIX + "CONFIG": str(file), PREFIX + "PRESET": "typed_window"})
    assert loaded.policy.refusal == "mode"
    assert loaded.policy.action is Action.NUDGE
    assert "write_file" not in loaded.policy.tools


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ACTION": "blok"}, "did you mean block?"),
        ({"PRESET": "chat"}, "no such preset"),
        ({"CONFIG": "/there/is/none.toml"}, "cannot be read: No such file"),
        ({"HASH_KEY_FILE": "/there/is/none"}, "hash key cannot be read"),
    ],
)
def test_a_wrong_variable_is_a_mistake_and_the_default_policy(environ, message):
    """Nothing is raised: the mistake is a problem, and the policy is the default one."""
    loaded = load_environment({PREFIX + name: value for name, value in environ.items()})
    assert loaded.policy == Policy()
    assert message in str(loaded.problems[0])


def test_a_mistake_elsewhere_never_lifts_what_the_environment_forbids(tmp_path):
    """ACTION=observe still applies if the file is broken: the default policy would refuse calls."""
    (tmp_path / "broken.toml").write_text("action = 3")
    loaded = load_environment({PREFIX + "CONFIG": str(tmp_path / "broken.toml"), PREFIX + "ACTION": "observe"})
    assert loaded.problems
    assert loaded.policy == Policy(action=Action.OBSERVE)


def test_a_variable_that_nobody_reads_is_noted():
    """A misspelt variable is a note with the right name, and the other settings apply."""
    loaded = load_environment({PREFIX + "ACTON": "observe", PREFIX + "PRESET": "turn_nudge", "OTHER": "x"})
    assert loaded.policy.max_calls == 30
    (note,) = loaded.notes
    assert "did you mean ACTION?" in str(note)


def test_the_variables_that_are_listed_are_the_ones_that_are_read():
    """All flags of opentelemetry-instrument are known variables, and the hash key is not among the flags."""
    listed = {name.removeprefix(PREFIX) for name in vars(environment_variables) if name.startswith(PREFIX)}
    assert listed == set(VARIABLES) - {"HASH_KEY", "HASH_KEY_FILE"}


def test_the_hash_key_comes_from_a_variable_or_a_file(tmp_path):
    """The variable and the file give one key, and neither shows it."""
    (tmp_path / "key").write_bytes(b"SECRET\n")
    for environ in ({"HASH_KEY": "SECRET"}, {"HASH_KEY_FILE": str(tmp_path / "key")}):
        loaded = load_environment({PREFIX + name: value for name, value in environ.items()})
        assert loaded.policy.hash_key == b"SECRET"
        assert "SECRET" not in repr(loaded)


def test_an_empty_key_file_is_a_mistake(tmp_path):
    """An empty file would make every fingerprint guessable."""
    (tmp_path / "key").write_bytes(b"\n")
    assert load_environment({PREFIX + "HASH_KEY_FILE": str(tmp_path / "key")}).problems


def test_every_sort_of_setting_arrives():
    """Rules, contracts, words, sentences and lists arrive as the text defines them."""
    policy = load_text(
        'dangerous = ["fire"]\nwords.read = ["peruse"]\nsentences.cycle.nudge = "x"\n'
        '[tools."q*"]\nkind = "poll"\nroute = { tool = "t", args = ["a", "b"] }\nmodes.cycle.block = 4\n'
    ).checked()
    contract = policy.tools["q*"]
    assert (contract.kind, contract.route, contract.modes["cycle"].block) == (
        Kind.POLL, {"tool": ("t",), "args": ("a", "b")}, 4,
    )  # fmt: skip
    assert policy.sentences == {"cycle.nudge": "x"}
    assert (policy.words["read"], policy.dangerous) == (("peruse",), ("fire",))


def test_at_process_start_a_wrong_policy_is_a_log_line(monkeypatch, tmp_path, caplog):
    """The error contains the mistake and the remedy, and the program continues with the default policy."""
    (tmp_path / "loop.toml").write_text("abort_afer = 3\nmax_cals = 1\n")
    monkeypatch.setenv(PREFIX + "CONFIG", str(tmp_path / "loop.toml"))
    with caplog.at_level(logging.ERROR, "otel_loopguard"):
        assert policy_from_environment() == Policy()
    (record,) = caplog.records
    assert all(word in record.getMessage() for word in ("abort_after?", "max_calls?", "line 2", "default policy"))
