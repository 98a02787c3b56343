"""Each row has all the parts of a mode. What is missing is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otel_loopguard import Mode, Policy
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.detectors import DETECTORS, row
from otel_loopguard.engine.detectors.presets import COUNTED
from otel_loopguard.engine.detectors.row import Counter, Detector
from otel_loopguard.engine.modes import DEFAULT_RULES, ROWS
from otel_loopguard.engine.policy import own_rows
from otel_loopguard.engine.settings import PLACEHOLDERS
from otel_loopguard.engine.vocabulary import ToolCall

HERE = Path(__file__).parent
FOLDER = Path(row.__file__).parent
OF_TODAY = [
    "unknown_tool_repeat", "poll_no_progress", "ping_pong", "cycle", "generic_repeat", "similar_query", "error_repeat",
    "same_answer", "volatile_repeat", "repeated_effect", "no_novelty", "retry_limit", "global_circuit_breaker",
]  # fmt: skip
"""The public names of the modes. Attributes, metrics and policies have them, so none may change."""


def missing(one: Detector) -> list[str]:
    """Name the parts that a mode of the package must have and this row does not have."""
    file = FOLDER / f"{one.mode}.py"
    parts = {
        "a check, before, after or at_request": one.before or one.after or one.at_request,
        "rule: a default limit": one.rule.settings,
        "refusal": one.refusal or (one.after and not one.before),
        "nudge": one.nudge,
        "may_trip_from": one.may_trip_from,
        "about": one.about,
        "the file of its name": file.exists(),
        "the docstring of its file, which begins with its name": file.exists()
        and file.read_text("utf-8").startswith(f'"""``{one.mode}``: '),
        "its test": (HERE / f"test_{one.mode}.py").exists(),
        "a meaning of each setting": all(setting.meaning for setting in one.settings.values()),
    }
    if one.about is not None:
        parts |= {f"about.{name}": getattr(one.about, name) for name in ("title", "agent", "told", "refused", "cause")}
    return [name for name, part in parts.items() if not part]


@pytest.mark.parametrize("mode", ROWS)
def test_a_row_has_every_part(mode):
    """Limits, checks, sentences, bound, words for people, file and test."""
    assert missing(ROWS[mode]) == []


@pytest.mark.parametrize("mode", [mode for mode, row in ROWS.items() if row.rule.block])
def test_the_words_for_people_begin_with_the_default_limits(mode):
    """Who changes a limit changes the words: the pages are made of them."""
    rule, about = ROWS[mode].rule, ROWS[mode].about
    words = {limit: said for limit, said in ((rule.nudge, about.told), (rule.block, about.refused)) if limit}
    assert [int(re.match(r"(\d+)(?:st|nd|rd|th)\b", said)[1]) for said in words.values()] == list(words)
    assert rule.nudge or about.told == "-"


def test_a_part_that_is_missing_is_named():
    """Who adds a mode reads what it still needs."""
    assert missing(Detector("brand_new", refusal="x")) == [
        "a check, before, after or at_request",
        "rule: a default limit",
        "nudge",
        "may_trip_from",
        "about",
        "the file of its name",
        "the docstring of its file, which begins with its name",
        "its test",
    ]


@pytest.mark.parametrize("one", [*DETECTORS, *COUNTED], ids=lambda one: one.mode)
def test_a_row_has_no_fault_that_a_user_would_be_told(one):
    """The rows of the package pass the checks of a user's own rows."""
    assert list(own_rows.faults(one, ())) == []


@pytest.mark.parametrize("one", [*DETECTORS, *COUNTED], ids=lambda one: one.mode)
def test_every_row_has_a_bound_on_known_counters(one):
    """Reading recorded runs skips the turns that are below all bounds: each is a positive number of a counter."""
    tool = CompiledPolicy(Policy(max_calls=9, tools={"look": {"cap": 4}})).contracts.tool("look", None)
    bound = one.may_trip_from(tool.rules[one.mode])
    assert bound
    assert all(isinstance(counter, Counter) and number >= 1 for counter, number in bound.items())


@pytest.mark.parametrize("one", DETECTORS, ids=lambda one: one.mode)
def test_a_row_that_is_not_asked_about_first_calls_is_bounded_by_repeats(one):
    """A check that may trip at a call without an earlier run must be asked about such calls."""
    tool = CompiledPolicy(Policy(max_calls=9, tools={"look": {"cap": 4}})).contracts.tool("look", None)
    counters = set(one.may_trip_from(tool.rules[one.mode]))
    if one.before and one.untried:
        assert counters & {Counter.UNKNOWN, Counter.FAILED, Counter.ANSWERED_ALIKE, Counter.OF_TOOL, Counter.CALLS}
    elif one.before:
        assert counters <= {Counter.EQUAL, Counter.VAIN, Counter.VAIN_IN_TURN}


def test_the_modes_are_derived_in_the_order_of_the_rows():
    """The enumeration and the default rules have them, and those of today keep their names and their order."""
    in_order = list(dict.fromkeys(one.mode for one in DETECTORS))
    assert [mode.value for mode in Mode] == [str(mode) for mode in DEFAULT_RULES] == in_order
    assert [name for name in in_order if name in OF_TODAY] == OF_TODAY
    assert [mode.name for mode in Mode] == [name.upper() for name in in_order]
    assert all(mode == mode.value and hash(mode) == hash(mode.value) for mode in Mode)


def test_every_setting_has_one_meaning():
    """A setting that several modes have is the same in all of them, because a policy file may set it for each."""
    known = {}
    for one in ROWS.values():
        for name, setting in one.settings.items():
            assert known.setdefault(name, setting) == setting, name


def test_every_reason_of_a_trip_has_its_sentences():
    """Each reason that a check gives is in the row of its mode, so that it selects a sentence."""
    for one in DETECTORS:
        text = (FOLDER / f"{one.mode}.py").read_text("utf-8")
        reasons = set(re.findall(r'reason = "(\w+)"|reason="(\w+)"|"(\w+)" if', text))
        for reason in {name for found in reasons for name in found if name}:
            assert reason in ROWS[one.mode].reasons, (one.mode, reason)


def test_only_known_placeholders_are_in_the_sentences():
    """What is filled in is a number or a cleaned name."""
    for one in ROWS.values():
        texts = [one.refusal, one.nudge, *(text for found in one.reasons.values() for text in found[:2])]
        assert set(re.findall(r"{(\w+)}", " ".join(texts))) <= set(PLACEHOLDERS)


def test_a_tool_takes_its_limits_from_the_declarations_that_a_row_names():
    """A contract's interval, patience and cap, and the policy's budget, are limits of the modes that judge by them."""
    policy = Policy(max_calls=9, tools={"look": {"cap": 4, "interval": 2.0, "patience": 5.0}})
    rules = CompiledPolicy(policy).contracts.resolve(ToolCall("look")).tool.rules
    assert (rules["poll_no_progress"].min_interval, rules["poll_no_progress"].patience) == (2.0, 5.0)
    assert (rules["retry_limit"].cap, rules["global_circuit_breaker"].max_calls) == (4, 9)
