"""A policy file names detectors of the user's: they are imported, and every mistake is named with its line."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import pytest

from otel_loopguard import Guard, Outcome, PolicyError, ToolCall, load_policy
from otel_loopguard.cli.main import main
from otel_loopguard.policy_files.load import load_environment, load_file, load_preset, load_text

ROW = """
from otel_loopguard import Action, Detector, Rule, Setting, Trip

def before(history, record, rule):
    \"\"\"Refuse the call after so many of one tool.\"\"\"
    calls = history.calls_of(record) + 1
    return Trip("many", record.tool, calls, rule.block, Action.BLOCK) if 0 < rule.block < calls * rule.weight else None

ROW = Detector(
    "many", rule=Rule(block=3, weight=1), before=before, settings={"weight": Setting.count("What a call counts.")},
    refusal="{tool} was called {before} times.",
)
"""
_numbers = count()


@pytest.fixture
def own(tmp_path):
    """A function that writes a module and a policy file that names its ``ROW``; returns the file and the module."""

    def write(code=ROW, rest="", name="ROW"):
        module = f"own_detector_{next(_numbers)}"
        (tmp_path / f"{module}.py").write_text(code)
        (tmp_path / "mine.toml").write_text(f'action = "block"\ndetectors = ["{module}:{name}"]\n{rest}')
        return str(tmp_path / "mine.toml"), module

    return write


def refused_at(policy):
    turn = Guard(policy).turn()
    for number in range(20):
        call = ToolCall("look", {"at": number})
        decision = turn.begin(call)
        if not decision.runs:
            return number + 1, decision.trip.mode, decision.message
        turn.end(call, Outcome(f"a text of its own, number {number}"))
    return None


def test_a_row_that_is_named_in_the_file_judges(own):
    """The module is found beside the policy file, wherever the program runs."""
    path, _ = own()
    number, mode, message = refused_at(load_policy(path))
    assert (number, mode) == (4, "many")
    assert "look was called 3 times." in message
    assert load_environment({"OTEL_PYTHON_LOOPGUARD_CONFIG": path}).policy.own_rows.keys() == {"many"}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("[modes.many]\nblock = 5", 6),
        ("[modes.many]\nweight = 2", 2),
        ("[tools.look]\nmodes.many.block = 7", 8),
        ('[modes.many]\naction = "off"', None),
        ('[tools.look]\naction = "nudge"', None),
        ('order = ["generic_repeat", "many"]', 4),
        ('order = ["generic_repeat"]', None),
        ('preset = "repeat_hint"', 4),
    ],
)
def test_its_settings_are_those_of_any_mode(own, rest, expected):
    """Limits for all tools and for one, its own settings, ceilings, ``order``; a preset leaves it on."""
    found = refused_at(load_policy(own(rest=rest)[0]))
    assert (found and found[0]) == expected


@pytest.mark.parametrize(
    ("rest", "line", "problem"),
    [
        ("[modes.many]\nblok = 5", 4, "modes.many.blok = 5: no such setting of a mode; did you mean block?"),
        ("[modes.many]\nweight = -1", 4, "modes.many.weight = -1: must be a whole number, 0 or more."),
        ("[modes.mani]\nblock = 5", 3, "modes.mani: no such mode; did you mean many?"),
        ("[modes.cycle]\nweight = 1", 4, "modes.cycle.weight = 1: no such setting of a mode"),
        ('[sentences]\nmany = "{a}"', 4, "sentences.many = '{a}': must be a text"),
        ('order = ["mani"]', 3, "order = ['mani']: must be a list of modes"),
    ],
)
def test_mistakes_in_its_settings_are_named(own, rest, line, problem):
    """As for every other mode."""
    path, _ = own(rest=rest)
    (found,) = map(str, load_file(path).problems)
    assert found.startswith(f"{path}, line {line}: {problem}")


@pytest.mark.parametrize(
    ("code", "name", "problem"),
    [
        (None, "ROW", "cannot be imported (ModuleNotFoundError {module}); put {module}.py into {folder}"),
        ("import no_such_module_at_all", "ROW", "cannot be imported (ModuleNotFoundError no_such_module_at_all)"),
        ("1 / 0", "ROW", "cannot be imported (ZeroDivisionError); put"),
        ("raise SystemExit(3)", "ROW", "cannot be imported (SystemExit); put"),
        ("def ROW(): )", "ROW", "cannot be imported (SyntaxError); put"),
        (ROW, "ROV", "{module} has no ROV; did you mean ROW?"),
        ("", "ROW", "{module} has no ROW; it must be a Detector there."),
        (ROW, "before", "before is of type function, and must be a Detector. A function can be given in code"),
        ("ROW = 3", "ROW", "ROW is of type int, and must be a Detector."),
        (ROW, "", 'must have the form "MODULE:NAME", such as "own_detector:ROW".'),
        (
            ROW.replace('"many", rule', '"cycle", rule'),
            "ROW",
            "there is a mode cycle already; give yours another name.",
        ),
        (ROW.replace('"many", rule', '"No way", rule'), "ROW", "mode = 'No way' must be a name of small letters"),
        (ROW.replace("before=before, ", ""), "ROW", "it has no check: before, after or both must be a function"),
        (ROW.replace("before=before", "before=3"), "ROW", "before = 3 must be a function."),
        (ROW.replace("weight=1", "wait=1"), "ROW", "rule.wait = 1 is no setting of the mode: declare it in settings."),
        (ROW.replace("weight=1", "weight=-1"), "ROW", "rule.weight = -1 must be a whole number, 0 or more."),
        (ROW.replace("rule=Rule(block=3, weight=1)", "rule=3"), "ROW", "rule = 3 must be a Rule."),
        (ROW.replace('Setting.count("What a call counts.")', "3"), "ROW", "settings['weight'] must be a Setting."),
        (ROW.replace("{before} times", "{befor} times"), "ROW", "refusal must be a text; {{...}} may hold tool"),
        (ROW + "\nROW = Detector('x', after=before, once_per='day')", "ROW", "once_per = 'day' must be one of call, "),
        (ROW + "\nROW = Detector('x', after=before, settings=3)", "ROW", "settings must be a mapping."),
        (ROW + "\nROW = Detector('x', after=before, reasons={'a': 'b'})", "ROW", "reasons['a'] must be Sentences."),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_line_and_remedy(own, capsys, code, name, problem):
    """The program runs on, and only observes; ``policy check`` prints the same."""
    path, module = own(code or "", name=name)
    folder = Path(path).parent
    if code is None:
        (folder / f"{module}.py").unlink()
    loaded = load_file(path)
    found = "\n".join(map(str, loaded.problems))
    assert f"{path}, line 2: detectors = " in found
    assert problem.format(module=module, folder=folder) in found
    assert str(loaded.policy.action) == "observe"
    assert main(["policy", "check", path]) == 1
    assert problem.format(module=module, folder=folder) in capsys.readouterr().err


def test_only_the_file_that_the_user_names_may_name_code():
    """A text from anywhere else imports nothing, and says so."""
    (found,) = load_text('detectors = ["antigravity:ROW"]').problems
    assert str(found) == (
        "policy, line 1: detectors = ['antigravity:ROW']: only your own policy file may name detectors, because they "
        "are code."
    )
    assert "antigravity" not in sys.modules
    assert all("detectors" not in load_preset(name).origins for name in ("default", "chat_turn"))


@pytest.mark.parametrize("value", ['"own:ROW"', "[3]", "{ a = 1 }"])
def test_detectors_are_a_list_of_names(tmp_path, value):
    """Anything else is a mistake."""
    (tmp_path / "mine.toml").write_text(f"detectors = {value}\n")
    with pytest.raises(PolicyError, match="must be a list of texts in the form"):
        load_policy(str(tmp_path / "mine.toml"))


def test_two_rows_cannot_have_one_mode(own, tmp_path):
    """The second one is named."""
    path, module = own()
    (tmp_path / "mine.toml").write_text(f'detectors = ["{module}:ROW", "{module}:ROW"]\n')
    assert "there is a mode many already" in str(load_file(path).problems[0])


def test_the_commands_show_the_mode_and_its_limits(own, capsys):
    """``policy show`` has it in its table, and ``policy check`` says when ``order`` leaves it out."""
    path, _ = own(rest="[modes.many]\nblock = 5\n")
    assert main(["policy", "show", "--file", path]) == 0
    shown = capsys.readouterr().out
    for line in ('detectors = ["many"]', "modes.many.block = 5", "modes.many.weight = 1"):
        assert line in " ".join(shown.split())
    path, _ = own(rest='order = ["generic_repeat"]\n[modes.many]\nblock = 5\n')
    assert main(["policy", "check", path]) == 1
    assert "modes.many.block = 5: has no effect: `order` leaves many out." in capsys.readouterr().err
