"""The sources of a policy: preset below file below environment, setting by setting."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import environment_variables
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.settings import ACTIONS
from otel_loopguard.engine.vocabulary import Action, Kind
from otel_loopguard.instrumentation.runtime import policy_from_environment
from otel_loopguard.policy_files.load import VARIABLES, load_environment, load_text

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
        ({"CONFIG": "/there/is/none.toml"}, "CONFIG: cannot be read: No such file"),
        ({"CONFIG": "/dev/zero"}, "not a regular file"),
        ({"CONFIG": "/"}, "not a regular file"),
        ({"ACTON": "observe"}, "did you mean OTEL_PYTHON_LOOPGUARD_ACTION?"),
        ({"CONFG": "loop.toml"}, "did you mean OTEL_PYTHON_LOOPGUARD_CONFIG?"),
        ({"MODE": "shadow"}, "no such variable"),
        ({"ENFORCE": "false"}, "no such variable"),
        ({"POLICY_FILE": "loop.toml"}, "no such variable"),
    ],
)
@pytest.mark.parametrize("action", ["", "block", "observe", "off"])
def test_a_wrong_variable_makes_the_guard_observe(environ, message, action):
    """Nothing is raised: the mistake is a problem, and the policy observes, or has the action of the environment."""
    given = {"ACTION": action, **environ}
    loaded = load_environment({PREFIX + name: value for name, value in given.items()})
    assert loaded.policy == Policy(action=action if action and given["ACTION"] == action else "observe")
    assert message in str(loaded.problems[0])


@pytest.mark.parametrize(
    "text",
    [
        "action = 3",
        'action = "observ"',
        'acton = "observe"',
        'action = "observe"\nabort_afer = 3',
        '[tools."deploy*"]\nactoin = "observe"',
        '[modes.cycle]\naction = "observ"',
        'preset = "turn_nugde"',
        'action = "observe',
        'preset = ["a"]',
        "deep = " + "[" * 5_000 + "]" * 5_000,
        "deep = " + "{a = " * 5_000 + "1" + "}" * 5_000,
        "long = " + "9" * 10_000,
        "a." * 150 + "a = 1",
        "a." * 250_000 + "a = 1",
        "[" + '"a" . ' * 100_000 + "a]",
        "tools.x.cap = {" + "a." * 250_000 + "a = 1}",
        "\ud800",
    ],
)
def test_a_file_with_a_mistake_makes_the_guard_observe(tmp_path, text):
    """Any mistake may be in the line with the action, or in that of a tool: nothing is refused."""
    path = tmp_path / "loop.toml"
    path.write_text(text, "utf-8", errors="surrogatepass")
    loaded = load_environment({PREFIX + "CONFIG": str(path)})
    assert loaded.problems
    assert (loaded.policy, loaded.origins) == (Policy(action="observe"), {("action",): "the policy has mistakes"})
    assert loaded.in_force == "the guard observes and refuses nothing"
    assert all(len(str(problem)) < 1_000 for problem in loaded.problems)


@pytest.mark.parametrize("action", ["off", "observe", "nudge", "block", "conclude", "abort"])
def test_the_action_of_the_environment_holds_whatever_is_wrong_in_the_file(tmp_path, action):
    """It is over every file, so it is known for sure. The limits of the file are not: the default ones hold."""
    (tmp_path / "loop.toml").write_text('action = "observe"\nabort_after = 3\nabort_afer = 3')
    loaded = load_environment({PREFIX + "CONFIG": str(tmp_path / "loop.toml"), PREFIX + "ACTION": action})
    assert loaded.problems
    assert loaded.policy == Policy(action=action)
    assert loaded.in_force == f"the action of the environment holds ({action}), with the default limits"


def test_a_hash_key_that_cannot_be_read_changes_no_decision(file):
    """The policy holds, with a random key; the fault is a note."""
    loaded = load_environment({PREFIX + "CONFIG": str(file), PREFIX + "HASH_KEY_FILE": "/there/is/none"})
    assert (loaded.policy.action, loaded.policy.hash_key, loaded.problems) == (Action.NUDGE, None, ())
    (note,) = loaded.notes
    assert "hash key cannot be read" in str(note)
    assert "none" not in str(note)


@pytest.mark.parametrize("size", [1, 15, 16])
def test_a_short_hash_key_is_used_and_noted(tmp_path, size):
    """A key of fewer than 16 bytes can be found by trying. The note has its length alone."""
    (tmp_path / "key").write_bytes(b"k" * size + b"\n")
    for environ in ({"HASH_KEY": "k" * size}, {"HASH_KEY_FILE": str(tmp_path / "key")}):
        loaded = load_environment({PREFIX + name: value for name, value in environ.items()})
        assert loaded.policy.hash_key == b"k" * size
        assert [f"{size} bytes" in str(note) for note in loaded.notes] == [True] * (size < 16)


def test_a_variable_that_nobody_reads_is_noted():
    """A misspelt variable of telemetry is a note, and the other settings apply."""
    loaded = load_environment({PREFIX + "EVENT": "log", PREFIX + "PRESET": "turn_nudge", "OTHER": "x"})
    assert loaded.policy.max_calls == 30
    (note,) = loaded.notes
    assert "did you mean OTEL_PYTHON_LOOPGUARD_EVENTS?" in str(note)


def test_the_variables_that_are_listed_are_the_ones_that_are_read():
    """All flags of opentelemetry-instrument are known variables, and the hash key is not among the flags."""
    listed = {name.removeprefix(PREFIX) for name in vars(environment_variables) if name.startswith(PREFIX)}
    assert listed == set(VARIABLES) - {"HASH_KEY", "HASH_KEY_FILE", "STORE"}


def test_the_hash_key_comes_from_a_variable_or_a_file(tmp_path):
    """The variable and the file give one key, and neither shows it."""
    (tmp_path / "key").write_bytes(b"SECRET\n")
    for environ in ({"HASH_KEY": "SECRET"}, {"HASH_KEY_FILE": str(tmp_path / "key")}):
        loaded = load_environment({PREFIX + name: value for name, value in environ.items()})
        assert loaded.policy.hash_key == b"SECRET"
        assert "SECRET" not in repr(loaded)


def test_an_empty_key_file_is_noted(tmp_path):
    """An empty key would make every fingerprint guessable: a random one is taken."""
    (tmp_path / "key").write_bytes(b"\n")
    loaded = load_environment({PREFIX + "HASH_KEY_FILE": str(tmp_path / "key")})
    assert (loaded.policy.hash_key, "is empty" in str(loaded.notes[0])) == (None, True)


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
    """The error contains the mistakes and the remedies, and the guard only observes."""
    (tmp_path / "loop.toml").write_text("abort_afer = 3\nmax_cals = 1\n")
    monkeypatch.setenv(PREFIX + "CONFIG", str(tmp_path / "loop.toml"))
    with caplog.at_level(logging.ERROR, "otel_loopguard"):
        assert policy_from_environment() == Policy(action="observe")
    (record,) = caplog.records
    assert all(word in record.getMessage() for word in ("abort_after?", "max_calls?", "line 2", "refuses nothing."))
    assert record.getMessage().startswith("The policy has mistakes. Until they are corrected, ")


def test_one_mistake_is_worded_as_one(monkeypatch, tmp_path, caplog):
    """Noun and verb agree with the number."""
    (tmp_path / "loop.toml").write_text("abort_afer = 3\n")
    monkeypatch.setenv(PREFIX + "CONFIG", str(tmp_path / "loop.toml"))
    policy_from_environment()
    (record,) = caplog.records
    assert record.getMessage().startswith("The policy has a mistake. Until it is corrected, ")


def test_a_file_of_thousands_of_mistakes_is_a_short_log_line(monkeypatch, tmp_path, caplog):
    """The first mistakes are listed, the others counted."""
    (tmp_path / "loop.toml").write_text("".join(f"wrong_{number} = 1\n" for number in range(5_000)))
    monkeypatch.setenv(PREFIX + "CONFIG", str(tmp_path / "loop.toml"))
    policy_from_environment()
    (record,) = caplog.records
    assert len(record.getMessage().splitlines()) < 30
    assert "and 4,980 more" in record.getMessage()


def in_toml(value):
    """The value in TOML, in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {in_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    return json.dumps(value)


SETTINGS = [*schema.POLICY, *schema.RULE, *schema.CONTRACT, *schema.WORDS, *map(str, ROWS), "modes", "tools", "words",
            "sentences", "preset", "hash_key", "on_trip", "detectors"]  # fmt: skip
NAMES = st.one_of(st.sampled_from(SETTINGS), st.text("ab_*[]. ", max_size=4))
SCALARS = st.one_of(
    st.sampled_from([*ACTIONS, *schema.KINDS, *map(str, ROWS), "auto", "{tool} again", "{tool:d}"]),
    st.booleans(), st.integers(-1, 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text("a{}\n\x7f", max_size=3),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3))
)


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4), st.text(max_size=3))
def test_whatever_the_file_holds_a_mistake_makes_the_guard_observe(tables, damage):
    """Nothing is raised; a policy without a mistake can be used, and one with a mistake refuses nothing."""
    text = "".join(f"{json.dumps(name)} = {in_toml(value)}\n" for name, value in tables.items())
    for one in (text, text + damage, damage + text):
        loaded = load_text(one)
        if loaded.problems:
            assert loaded.policy == Policy(action="observe")
            assert all(str(problem).isprintable() for problem in loaded.problems)
        else:
            CompiledPolicy(loaded.policy).contracts.tool("read_file", None)


@pytest.mark.parametrize(("setting", "default"), [("conclude_after", 7), ("abort_after", 10)])
@pytest.mark.parametrize(("text", "expected"), [("8", 8), ("0", 0), ("-1", None), ("x", None), ("9" * 30, None)])
def test_the_variables_for_the_end_of_a_run_are_over_the_file(file, setting, default, text, expected):
    """A wrong value is a mistake like any other, so the guard only observes, with the default limits."""
    loaded = load_environment({PREFIX + "CONFIG": str(file), PREFIX + setting.upper(): text})
    assert len(loaded.problems) == (expected is None)
    assert getattr(loaded.policy, setting) == (default if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "scope", "problems"), [("Conversation", "conversation", 0), ("", "turn", 0), ("chat", "turn", 1)]
)
def test_the_scope_of_the_environment_wins(tmp_path, text, scope, problems):
    """A word that does not exist is a mistake that names those that do."""
    (tmp_path / "loop.toml").write_text("scope = 'turn'")
    loaded = load_environment({PREFIX + "CONFIG": str(tmp_path / "loop.toml"), PREFIX + "SCOPE": text})
    assert loaded.policy.scope == scope
    assert [str(one) for one in loaded.problems] == [
        f"environment: {PREFIX}SCOPE = 'chat': must be one of turn, conversation."
    ] * problems


def test_a_variable_that_does_not_fit_the_file_is_a_mistake(tmp_path):
    """The run would always end before the conclusion."""
    (tmp_path / "loop.toml").write_text("abort_after = 3")
    loaded = load_environment({PREFIX + "CONFIG": str(tmp_path / "loop.toml"), PREFIX + "CONCLUDE_AFTER": "4"})
    remedy = "must be less than abort_after, which is 3; 0 switches either one off."
    assert [str(problem) for problem in loaded.problems] == [f"{PREFIX}CONCLUDE_AFTER: conclude_after = 4: {remedy}"]
