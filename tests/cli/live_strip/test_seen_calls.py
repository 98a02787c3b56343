"""The line of the live strip, from the spans that a program has written so far."""

from __future__ import annotations

import json

import pytest

from otel_loopguard import Policy
from otel_loopguard.cli.live_strip.seen_calls import SeenCalls
from otel_loopguard.cli.replay.judge import PolicyJudge

from .programs import span_line

PRICED = Policy(cost_per_million_tokens={"gpt-*": {"input": 2.0, "output": 10.0}})
TOKENS = {"MODEL_NAME": "gpt-5", "MODEL_INPUT_TOKENS": 90_000, "MODEL_OUTPUT_TOKENS": 1_000}
REFUSED = {"OUTCOME": "blocked", "VERDICT": "block", "ACTION": "block", "MODE": "generic_repeat"}
SAME = {"RESULT_HASH": "blake2b-64:1", "RESULT_SAMENESS": "same", "NO_NEWS": True, "TOOL_KIND": "read"}
"""Of a call that brought nothing new."""


@pytest.fixture
def line(tmp_path):
    """A function: the line without colours, after these spans."""
    path = tmp_path / "spans.jsonl"
    path.touch()
    opened = []

    def of(*spans, columns=79, policy=PRICED, colours=False, **options):
        if not opened:
            opened.append(SeenCalls(path, PolicyJudge(policy), colours=colours, **options))
        with path.open("a") as file:
            file.writelines(spans)
        opened[0].read()
        return opened[0].line(columns).strip()

    yield of
    for one in opened:
        one.close()


def test_nothing_is_shown_before_a_call(line):
    """A program without calls has no strip."""
    assert line() == ""


def test_each_call_has_a_mark_and_the_repeated_one_is_named(line):
    """A new call is hollow, a repeat is filled; a trip has the shape of what the guard did."""
    assert line(span_line(0, arguments="a:1")) == "loopguard  ▫ 1 call"
    assert line(span_line(1)) == "loopguard  ▫▫ 2 calls"
    assert line(span_line(2)) == "loopguard  ▫▫▪ look x2 | 3 calls"
    assert line(span_line(3, VERDICT="nudge", ACTION="nudge")) == "loopguard  ▫▫▪▴ look x3 | 4 calls"
    assert line(span_line(4, **REFUSED)) == "loopguard  ▫▫▪▴✗ look x4 | 5 calls, 1 refused"
    ended = {**REFUSED, "VERDICT": "abort", "ACTION": "abort", "OUTCOME": "aborted"}
    assert line(span_line(5, **ended)) == "loopguard  ▫▫▪▴✗▮ look x5 | 6 calls, 2 refused"


def test_a_watched_call_has_the_mark_of_what_would_have_been_done(line):
    """It ran, and this is what the line says."""
    assert line(*(span_line(number, **SAME) for number in range(5))) == (
        "loopguard  ▫▴✗✗✗ look x5 | 5 calls, 3 would be refused"
    )


def test_a_call_that_had_run_already_would_not_be_refused(line):
    """The guard read it in a request, with its result."""
    text = line(*(span_line(number, HAS_RUN=True, **SAME) for number in range(5)))
    assert text.endswith("look x5 | 5 calls")
    assert text.startswith("loopguard  ▫▴")


def test_the_name_stays_with_the_loop(line):
    """A mere repeat of another call does not take it."""
    other = [span_line(number, tool="other", arguments="a:2") for number in (2, 3)]
    assert line(span_line(0), span_line(1, **REFUSED), *other) == "loopguard  ▫✗▫▪ look x2 | 4 calls, 1 refused"


def test_a_loop_over_arguments_counts_the_calls_of_its_tool(line):
    """No call is equal to another one."""
    first = [span_line(number, arguments=f"a:{number}") for number in range(3)]
    assert line(*first, span_line(3, arguments="a:9", **REFUSED)) == "loopguard  ▫▫▫✗ look x4 | 4 calls, 1 refused"


def test_equal_calls_of_two_turns_are_no_repeat(line):
    """Each turn may begin with the same call."""
    assert line(span_line(0), span_line(0, TURN_ID="u")) == "loopguard  ▫▫ 2 calls"


def test_a_resumed_call_is_one_call(line):
    """Its second span replaces the first."""
    two = [span_line(number, **SAME) for number in range(2)]
    assert line(*two, span_line(1, **SAME)) == "loopguard  ▫▴ look x2 | 2 calls"
    assert line(span_line(1, **REFUSED)) == "loopguard  ▫✗ look x2 | 2 calls, 1 refused"


def test_a_refused_call_has_its_mark_without_a_trip_on_its_span(line):
    """Few trips of a long loop are written."""
    assert line(span_line(0, OUTCOME="blocked")) == "loopguard  ✗ look x1 | 1 call, 1 refused"


def test_tokens_and_their_cost_are_added_up(line):
    """They are those of the requests that wrote the calls."""
    assert line(span_line(0, **TOKENS), span_line(1, arguments="a:2", **TOKENS)) == (
        "loopguard  ▫▫ 2 calls | 182,000 tokens | cost 0.3800"
    )


def test_there_is_no_money_without_prices(line):
    """No price is built in."""
    assert line(span_line(0, **TOKENS), policy=Policy()) == "loopguard  ▫ 1 call | 91,000 tokens"


def test_a_request_with_two_spans_counts_once(line):
    """A framework and its client both have one; the inner span ends first."""

    def request(span, parent):
        numbers = {"gen_ai.usage.input_tokens": 70, "gen_ai.usage.output_tokens": 7}
        attributes = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
        attributes += [{"key": key, "value": {"intValue": str(number)}} for key, number in numbers.items()]
        one = {"traceId": "a", "spanId": span, "parentSpanId": parent, "name": "chat", "attributes": attributes}
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}) + "\n"

    assert line(span_line(0), request("2", "1"), request("1", "")) == "loopguard  ▫ 1 call | 77 tokens"


def test_a_narrow_line_shows_the_newest_calls_and_is_cut(line):
    """It is never wider than asked for."""
    spans = [span_line(number, arguments=f"a:{number}") for number in range(60)]
    full = line(*spans, span_line(60, **REFUSED), columns=60)
    assert full == "loopguard  " + "▫" * 16 + "✗ look x61 | 61 calls, 1 refused"
    assert line(columns=30) == "loopguard  ✗ look x61 | 61 ca"


def test_wide_letters_take_two_columns(line):
    """Names of tools may be in any script."""
    assert line(span_line(0, tool="検索"), span_line(1, tool="検索"), columns=26) == "loopguard  ▪ 検索 x2 | 2"


def test_a_terminal_without_the_shapes_gets_others(line):
    """Its encoding tells."""
    spans = [span_line(0), span_line(1), span_line(2, VERDICT="nudge", ACTION="nudge"), span_line(3, **REFUSED)]
    assert line(*spans, encoding="ascii") == "loopguard  .o!x look x4 | 4 calls, 1 refused"


def test_the_guard_has_colours(line):
    """A refusal is red, and nothing else is."""
    assert line(span_line(0), span_line(1, **REFUSED), colours=True) == (
        "\x1b[7m loopguard \x1b[m ▫\x1b[31m✗\x1b[m look x2 | 2 calls, 1 refused"
    )


def test_no_escape_sequence_of_a_name_is_shown(line):
    """Names are made up by models, and other programs can write to the file."""
    assert line(*(span_line(number, tool="\x1b[2J\r\nlook") for number in range(2))) == (
        "loopguard  ▫▪ _2J_look x2 | 2 calls"
    )


def test_a_line_that_is_not_whole_is_read_later(line):
    """The program may be about to write its rest."""
    whole = span_line(0)
    assert line(whole[:50]) == ""
    assert line(whole[50:]) == "loopguard  ▫ 1 call"


def test_a_line_that_is_no_json_is_left_out(line):
    """Its process was killed while it wrote."""
    assert line("{\n", span_line(0)) == "loopguard  ▫ 1 call"
