"""A policy made in code is checked like a file: its values are parsed, or one error names all mistakes."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from otel_loopguard import Guard, Outcome, Policy, PolicyError, Rule, ToolCall, ToolContract, Trip
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.vocabulary import Action, Kind
from otel_loopguard.policy_files.load import load_preset, load_text


def refused_at(policy):
    """Return the number of the first equal call that does not run, or None."""
    turn = Guard(policy).turn()
    for number in range(1, 30):
        call = ToolCall("read_file", {"path": "a"})
        if not turn.begin(call).runs:
            return number
        turn.end(call, Outcome("same"))
    return None


def test_every_mistake_is_in_one_error():
    """Each mistake has its name, its value and the remedy, as in a policy file."""
    with pytest.raises(PolicyError) as raised:
        Policy(
            action="blok",
            abort_after=-1,
            counting="foo",
            order=["cicle"],
            modes={
                "generic_repet": Rule(),
                "cycle": Rule(max_period=99, action="nudg"),
                "ping_pong": {"max_period": 3},
            },
            tools={"read_[ab": {"kindd": "read"}},
            sentences={"generic_repeat": "{foo}"},
        )
    told = raised.value.problems
    assert told == [
        "action = 'blok': must be one of off, observe, nudge, reuse, block, conclude, abort; did you mean block?",
        "abort_after = -1: must be a whole number, 0 or more.",
        "modes.generic_repet: no such mode; did you mean generic_repeat?",
        "modes.cycle.action = 'nudg': must be one of off, observe, nudge, reuse, block, conclude, abort; did you mean "
        "nudge?",
        "modes.cycle.max_period = 99: must be a whole number from 2 to 32.",
        "modes.ping_pong.max_period = 3: ping_pong has no such setting; it is one of cycle.",
        'tools."read_[ab": must be a glob of tool names, such as "read_*"; a [ needs its ].',
        "tools.\"read_[ab\".kindd = 'read': no such setting of a tool; did you mean kind?",
        "counting = 'foo': must be one of results, calls.",
        f"order = ['cicle']: must be a list of modes ({', '.join(map(str, Mode))}); did you mean cycle?",
        "sentences.generic_repeat = '{foo}': must be a text; {...} may hold tool, count, limit, period, before, laps, "
        "wait alone, and other braces are doubled.",
    ]
    assert str(raised.value).startswith("Policy: 11 problems\n  - action = 'blok': ")


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"max_calls": True}, "a whole number"),
        ({"max_calls": 10**30}, "a whole number"),
        ({"abort_after": None}, "a whole number"),
        ({"abort_after": {}}, "a whole number"),
        ({"tools": []}, "must be a mapping"),
        ({"window": 10**400}, "a number of seconds"),
        ({"order": "cycle"}, "a list of modes"),
        ({"modes": Rule}, "must be a mapping"),
        ({"modes": {"cycle": 3}}, "must be a Rule"),
        ({"modes": {3: Rule()}}, "no such mode"),
        ({"tools": ["read_*"]}, "must be a mapping"),
        ({"tools": {"x": 3}}, "must be a ToolContract"),
        ({"tools": {"x": Rule(block=3)}}, "no such setting of a tool"),
        ({"tools": {"x": {"modes": {"cycel": Rule(block=3)}}}}, "did you mean cycle?"),
        ({"words": {"reed": ["x"]}}, "did you mean read?"),
        ({"words": {"read": "peruse"}}, "a list of texts"),
        ({"dangerous": "fire"}, "a list of texts"),
        ({"sentences": {"cicle": "x"}}, "did you mean cycle?"),
        ({"sentences": {"cycle.nudg": "x"}}, "did you mean nudge?"),
        ({"sentences": {"cycle": "{tool:d}"}}, "a text; {...} may hold"),
        ({"sentences": {"cycle": "{count.real.x}"}}, "a text; {...} may hold"),
        ({"sentences": {"cycle": "{count:>{limit}}"}}, "a text; {...} may hold"),
        ({"sentences": {"cycle": "{tool!r}"}}, "a text; {...} may hold"),
        ({"sentences": {"cycle": "{}"}}, "a text; {...} may hold"),
        ({"sentences": {"cycle": "a { b"}}, "a text; {...} may hold"),
        ({"detectors": len}, "a list of functions"),
        ({"detectors": ["len"]}, "a list of functions"),
        ({"on_trip": "log"}, "a function"),
        ({"hash_key": "SECRET"}, "must be bytes"),
    ],
)
def test_each_kind_of_mistake_has_its_remedy(settings, remedy):
    """A wrong name, value or type raises when the policy is made, not when a call is judged."""
    with pytest.raises(PolicyError) as raised:
        Policy(**settings)
    (message,) = raised.value.problems
    assert remedy in message
    assert "SECRET" not in message


def test_a_contract_is_checked_where_it_is_made():
    """A contract may be declared long before there is a policy."""
    with pytest.raises(PolicyError, match="ToolContract: 3 problems") as raised:
        ToolContract(kind="reader", volatile="nonce", modes={"cycle": Rule(block=-1)})
    assert raised.value.problems == [
        f"kind = 'reader': must be one of {', '.join(map(str, Kind))}; did you mean read?",
        "volatile = 'nonce': must be a list of texts.",
        "modes.cycle.block = -1: must be a whole number, 0 or more.",
    ]


def test_text_is_understood_everywhere():
    """An action, a kind and a list may be written as in a file."""
    assert Rule(action="nudge").action is Action.NUDGE
    assert Rule(action="off").action is Action.OFF
    policy = Policy(
        action="OBSERVE",
        order=[Mode.CYCLE, "ping_pong"],
        dangerous=["fire"],
        modes={Mode.CYCLE: Rule(action="off")},
        tools={"x": ToolContract(kind="read", volatile=["id"], action="nudge", modes={"cycle": Rule(block=4)})},
    )
    assert (policy.action, policy.order, policy.dangerous) == (Action.OBSERVE, ("cycle", "ping_pong"), ("fire",))
    assert policy.modes["cycle"].action is Action.OFF
    contract = policy.tools["x"]
    assert (contract.kind, contract.volatile, contract.action) == (Kind.READ, ("id",), Action.NUDGE)
    assert contract.modes["cycle"].block == 4


def test_a_setting_in_a_table_that_is_none_is_left_open():
    """As one of a ``ToolContract`` or a ``Rule`` is."""
    tables = {"search": {"kind": None, "cap": 5, "modes": {"cycle": {"nudge": None, "block": 4}}}}
    assert Policy(tools=tables).tools == {"search": ToolContract(cap=5, modes={"cycle": Rule(block=4)})}


def test_a_rule_that_says_nudge_only_nudges():
    """The ceiling of a mode may be given as text."""
    assert refused_at(Policy(modes={"generic_repeat": Rule(action="nudge"), "no_novelty": Rule(action="off")})) is None


def test_tables_are_taken_as_a_file_would_have_them():
    """A mapping of settings becomes a rule or contract, and the policy equals that of a file."""
    made = Policy(
        modes=MappingProxyType({"generic_repeat": {"block": 5}}),
        tools={"x*": {"kind": "poll", "modes": {"cycle": {"block": 4}}}},
        sentences={"cycle": {"nudge": "n", "refusal": "r"}},
    )
    text = """
    [modes.generic_repeat]
    block = 5
    [tools."x*"]
    kind = "poll"
    modes.cycle.block = 4
    [sentences.cycle]
    nudge = "n"
    refusal = "r"
    """
    assert made == load_text(text).checked()
    assert refused_at(made) == 5


def test_what_is_checked_stays_as_it_is():
    """A policy made of the settings of another one equals it."""
    policy = load_preset("chat_turn").checked()
    assert Policy(**vars(policy)) == policy
    assert Policy() == Policy(modes={}, tools={}, order=[])


def test_one_rule_may_be_that_of_all_modes():
    """A setting that a mode does not use is ignored."""
    rule = Rule(nudge=0, block=0, max_period=3, nudge_at_share=0.0)
    policy = Policy(modes=dict.fromkeys(Mode, rule), tools={"x": ToolContract(modes=dict.fromkeys(Mode, rule))})
    assert set(policy.modes.values()) == set(policy.tools["x"].modes.values()) == {rule}


def test_detectors_of_ones_own_have_modes_of_their_own():
    """A policy with a detector may have rules and sentences for modes that only the detector knows."""

    def no_mondays(_history, call, rule):
        return Trip("acme.mondays", call.tool, 1, rule.block, Action.BLOCK)

    policy = Policy(
        detectors=[no_mondays],
        modes={"no_mondays": Rule(block=7, similarity=0.5)},
        sentences={"acme.mondays": "Not on {tool}, {limit}."},
    )
    refusal = json.loads(Guard(policy).turn().begin(ToolCall("monday")).message)
    assert (refusal["limit"], refusal["message"]) == (7, "Not on monday, 7.")
    with pytest.raises(PolicyError, match="did you mean"):
        Policy(modes={"no_novelti": Rule(block=7)})


def test_a_template_that_was_broken_later_is_left_for_the_default_sentence():
    """Neither begin nor end raises for such a template."""
    policy = Policy(sentences={"generic_repeat": "x", "generic_repeat.nudge": "x"})
    policy.sentences.update({"generic_repeat": "{foo}", "generic_repeat.nudge": "{count:s}"})
    turn = Guard(policy).turn()
    for _ in range(2):
        turn.begin(ToolCall("look"))
        nudge = turn.end(ToolCall("look"), Outcome("same")).message
    assert nudge.startswith("[loopguard] This returned")
    assert "returned the same each time" in turn.begin(ToolCall("look")).message


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"conclude_after": 10}, True),
        ({"conclude_after": 9}, False),
        ({"conclude_after": 3, "abort_after": 3}, True),
        ({"conclude_after": 30, "abort_after": 0}, False),
        ({"conclude_after": 0, "abort_after": 1}, False),
        ({"abort_after": 5}, False),
    ],
)
def test_a_conclusion_after_the_end_of_the_run_is_a_mistake(settings, wrong):
    """In code and in a file alike. Whoever sets only ``abort_after`` makes none."""
    text = "\n".join(f"{name} = {value}" for name, value in settings.items())
    abort = settings.get("abort_after", 10)
    told = f"must be less than abort_after, which is {abort}; 0 switches either one off."
    problems = [str(problem) for problem in load_text(text, "loop.toml").problems]
    assert problems == ([f"loop.toml, line 1: conclude_after = {settings['conclude_after']}: {told}"] if wrong else [])
    if wrong:
        with pytest.raises(PolicyError, match="must be less than abort_after"):
            Policy(**settings)
    else:
        assert Policy(**settings).abort_after == abort
