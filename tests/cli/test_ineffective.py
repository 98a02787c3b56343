"""Limits that no call reaches, found by asking the guard."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, ToolCall
from otel_loopguard.cli.ineffective import ineffective
from otel_loopguard.cli.main import main
from otel_loopguard.policy_files.load import load_environment, load_file
from tests.steps import steps


@pytest.fixture(name="found")
def _found(tmp_path):
    def found(text):
        path = tmp_path / "loop.toml"
        path.write_text(text)
        loaded = load_file(str(path))
        assert not loaded.problems
        return loaded, [str(problem).partition(": ")[2] for problem in ineffective(loaded)]

    return found


def first_refused(policy, tool):
    """The place of the first refusal in a row of equal calls with equal results."""
    with Guard(policy).turn() as turn:
        for place in range(1, 40):
            call = ToolCall(tool, {"path": "a.txt"})
            if not turn.begin(call).runs:
                return place
            turn.end(call, Outcome("the text of the file, which is the same each time"))
    return None


@pytest.mark.parametrize("block", [2, 4, 7, 8, 10, 11, 30, 1_000])
def test_a_limit_is_reported_if_and_only_if_another_one_refuses_before_it(found, block):
    """The report of a tool's `generic_repeat.block` is that of the guard."""
    loaded, problems = found(f"tools.read_file.modes.generic_repeat.block = {block}\n")
    refused = first_refused(loaded.policy, "read_file")
    assert bool(problems) == (refused != block)
    if problems:
        assert problems == [
            f"tools.read_file.modes.generic_repeat.block = {block}: has no effect above 8: "
            f"of equal calls with equal results, no_novelty refuses the {refused}th; raise that limit, too."
        ]


@pytest.mark.parametrize("table", ["", "tools.'*'."])
@pytest.mark.parametrize("block", [4, 9, 10, 30])
def test_a_limit_that_tools_of_one_kind_reach_is_not_reported(found, table, block):
    """Equal writes reach a limit for all tools, although equal reads are refused before it."""
    loaded, problems = found(f"{table}modes.generic_repeat.block = {block}\n")
    assert first_refused(loaded.policy, "write_file") == block
    assert problems == []


@pytest.mark.parametrize(
    ("text", "named", "reason"),
    [
        ("modes.generic_repeat.nudge = 30", "modes.generic_repeat.nudge", ", no_novelty refuses the "),
        ("max_calls = 5\nmodes.error_repeat.block = 12", "modes.error_repeat.block", "refuses the 6th"),
        ("tools.read_file.cap = 4\ntools.read_file.modes.generic_repeat.block = 7", "tools.read_file.modes", "the 5th"),
        ("max_calls = 6\ntools.read_file.cap = 9", "tools.read_file.cap", "global_circuit_breaker refuses the 7th"),
        ("order = ['generic_repeat']\nmodes.error_repeat.block = 4", "modes.error_repeat.block", "`order` leaves"),
        ("action = 'observe'\ntools.read.modes.generic_repeat.block = 12", "tools.read.modes", "no_novelty"),
    ],
)
def test_settings_of_every_table_are_judged(found, text, named, reason):
    """Another mode, the same mode's own limit, a cap, or the order may come before a limit."""
    _, problems = found(text)
    assert [one.partition(" = ")[0] for one in problems if one.startswith(named)] != []
    assert any(reason in one for one in problems)


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        (
            "action = 'observe'\ntools.search.action = 'block'",
            "tools.search.action = 'block'",
            "above observe: observe is",
        ),
        ("modes.generic_repeat.action = 'abort'", "modes.generic_repeat.action = 'abort'", "above block: block is"),
        ("modes.generic_repeat.abort = 3", "modes.generic_repeat.abort = 3", ": the policy's `action` is block"),
        ("tools.x.modes.cycle.action = 'conclude'", "tools.x.modes.cycle.action = 'conclude'", "above block: block is"),
    ],
)
def test_actions_that_the_policy_does_not_allow_are_reported(found, text, named, message):
    """The policy's action is the ceiling: a stronger one of a tool or a mode, and a limit of `abort`, do nothing."""
    _, (problem,) = found(text + "\n")
    assert problem.startswith(f"{named}: has no effect")
    assert message in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modes.no_novelty.turns = 5", 'modes.no_novelty.turns = 5: has no effect: set `scope = "conversation"`, too.'),
        ("conversation_idle = 60", 'conversation_idle = 60.0: has no effect: set `scope = "conversation"`, too.'),
        (
            "scope = 'conversation'\norder = ['cycle']",
            "scope = 'conversation': has no effect: `order` leaves no_novelty out.",
        ),
    ],
)
def test_settings_of_conversations_that_are_not_remembered_are_reported(found, text, message):
    """They need the scope, and the mode that reports."""
    assert found(text + "\n")[1] == [message]


def test_settings_of_conversations_that_are_remembered_have_an_effect(found):
    """Of the policy, of the mode and of a tool."""
    text = "scope = 'conversation'\nconversation_idle = 60\nmodes.no_novelty.turns = 5\n"
    assert found(f"{text}tools.x.modes.no_novelty.turns = 0\n")[1] == []


def test_an_action_of_the_environment_is_meant_to_lower_those_of_the_file(tmp_path):
    """Who observes first has no warning about the actions that are to hold later."""
    (tmp_path / "loop.toml").write_text("action = 'abort'\nmodes.generic_repeat = {action = 'abort', abort = 3}\n")
    environ = {"CONFIG": str(tmp_path / "loop.toml"), "ACTION": "observe"}
    loaded = load_environment({f"OTEL_PYTHON_LOOPGUARD_{name}": value for name, value in environ.items()})
    assert list(ineffective(loaded)) == []


@pytest.mark.parametrize(
    "text",
    [
        "action = 'abort'\nmodes.generic_repeat.abort = 3",
        "tools.search.action = 'nudge'",
        "modes.generic_repeat.block = 10\nmodes.no_novelty.block = 12",
        "modes.generic_repeat.block = 3",
        "modes.generic_repeat.block = 0",
        "modes.generic_repeat.block = 8\nmodes.generic_repeat.nudge = 5",
        "tools.read_file.cap = 4",
        "tools.read_file.cap = 100",
        "max_calls = 30",
        "tools.search_docs.query = 'auto'\ntools.search_docs.modes.similar_query.block = 6",
        "tools.'get_*'.kind = 'poll'\ntools.'get_*'.modes.poll_no_progress.block = 30",
        "preset = 'chat_turn'",
        "modes.global_circuit_breaker.no_news_block = 300",
        "tools.get_status.modes.global_circuit_breaker.block = 31",
        "tools.'*'.modes.generic_repeat.block = 12\ntools.'*'.modes.no_novelty.block = 24",
    ],
)
def test_settings_with_an_effect_are_not_reported(found, text):
    """A limit that decides, one that is switched off or has its default, and one that no loop of one tool shows."""
    assert found(text)[1] == []


@pytest.mark.parametrize("tool", ["search", "lookup", "read_file"])
def test_the_largest_value_that_has_an_effect_is_named(found, tool):
    """A limit above it is the same as this value, and the next lower one is not: so no advice costs a refusal."""
    loaded, (problem,) = found(f"tools.{tool}.modes.generic_repeat.block = 12\n")
    largest = int(problem.partition("has no effect above ")[2].partition(":")[0])
    places = [
        first_refused(found(f"tools.{tool}.modes.generic_repeat.block = {block}\n")[0].policy, tool)
        for block in (largest - 1, largest)
    ]
    assert places == [largest - 1, largest]
    assert first_refused(loaded.policy, tool) == largest + 1
    assert first_refused(found("")[0].policy, tool) < largest  # so removing the line is no remedy


@pytest.mark.parametrize(("glob", "of"), [("search", ""), ("'read_pag*'", " of read_page")])
def test_laps_are_refused_where_the_report_says(found, glob, of):
    """The number is that of a tool which the report names, if the table is for several."""
    loaded, (problem,) = found(f"tools.{glob}.modes.ping_pong.block = 12\n")
    with Guard(loaded.policy).turn() as turn:
        for place in range(1, 40):
            call = ToolCall(of.removeprefix(" of ") or glob, {"path": "ab"[place % 2]})
            if not turn.begin(call).runs:
                break
            turn.end(call, Outcome(f"the text of the file {'ab'[place % 2]}, " + 10 * "which is the same each time "))
    assert f"of two calls in turn{of}, generic_repeat refuses the {place}th" in problem


def test_policy_check_names_them(tmp_path, capsys):
    """A setting without effect has its line, its value and what comes before it; the exit status is 1."""
    path = tmp_path / "loop.toml"
    path.write_text("[tools.read_file.modes.generic_repeat]\nblock = 10\n")
    assert main(["policy", "check", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}, line 2: tools.read_file.modes.generic_repeat.block = 10: has no effect above 8: ")


def _work(found, text):
    """The calls that the report of this text takes, and its problems."""
    loaded, _ = found(text)
    problems = []
    return steps(lambda: problems.extend(ineffective(loaded))), problems


@pytest.mark.parametrize("others", ["", "[tools.'*']\nmodes.generic_repeat.nudge = 3\n"])
def test_the_work_grows_with_the_tools(found, others):
    """A fleet has hundreds. Twenty more take less than a quarter of the first, where only their names differ."""
    one, few, many = [
        _work(
            found,
            others
            + "".join(
                f"[tools.read_{number}]\nmodes.generic_repeat.block = 12\n" for number in range(100, 100 + count)
            ),
        )
        for count in (1, 21, 41)
    ]
    assert len(many[1]) - len(few[1]) == 20
    assert many[0] - few[0] < (few[0] - one[0]) * 1.2
    assert many[0] - few[0] < one[0] / 4


def test_equal_limits_of_many_tools_are_judged_as_those_of_one(found):
    """The kind by name, a contract of its own and a general table make differences, the name alone makes none."""
    tables = [
        "[tools.t1]\ncap = 12\n",
        "[tools.t2]\ncap = 12\nkind = 'poll'\n",
        "[tools.write_page]\ncap = 12\n",
        "[tools.read_page]\ncap = 12\n",
        "[tools.get_status]\ncap = 12\n",
        "[tools.t3]\ncap = 12\nmodes.generic_repeat.block = 20\n",
        "[tools.t4]\ncap = 8\n",
        "[tools.t5]\ncap = 12\n",
    ]
    alone = [problem for table in tables for problem in found(table)[1]]
    assert found("".join(tables))[1] == alone
    assert 0 < len(alone) < len(tables) + 1
    general = "[tools.'t*']\nmodes.no_novelty.block = 9\n"
    alone = [problem for table in tables for problem in found(general + table)[1] if "cap" in problem]
    assert [problem for problem in found(general + "".join(tables))[1] if "cap" in problem] == alone


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("abort_after = 8\n", False),
        ("abort_after = 7\n", True),
        ("abort_after = 0\n", False),
        ("abort_after = 5\nconclude_after = 4\n", False),
        ("abort_after = 5\nconclude_after = 0\n", False),
    ],
)
def test_a_run_that_ends_before_it_is_asked_for_an_answer_is_reported(found, text, reported):
    """``conclude_after`` keeps its default, 7, unless the file lowers it or switches it off."""
    value = text.split()[2]
    remedy = "ends the run without an answer, because `conclude_after` is 7: set a lower one, or 0."
    assert found(text)[1] == ([f"abort_after = {value}: {remedy}"] if reported else [])


def test_a_budget_of_cost_without_prices_is_reported(found):
    """It would never be spent."""
    prices = '\ncost_per_million_tokens."gpt-*" = { input = 1, output = 2 }'
    assert found(f"budget.tree.cost = 2.5{prices}")[1] == []
    (problem,) = found("budget.tree.cost = 2.5\nbudget.tree.requests = 9")[1]
    reason = "without a price in [cost_per_million_tokens] no request has a cost."
    assert problem == f"budget.tree.cost = 2.5: has no effect: {reason}"
