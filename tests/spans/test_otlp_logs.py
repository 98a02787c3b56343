"""Log records and spans of coding agents, as the programs themselves have sent them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.cli.main import main
from otel_loopguard.spans import otlp_protobuf
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp import ToolSpan
from otel_loopguard.spans.otlp_logs import LOG_DIALECTS, read_line
from tests.spans.coding_agents import SAMPLES, as_protobuf, lines

if TYPE_CHECKING:
    from pathlib import Path

each_program = pytest.mark.parametrize("name", SAMPLES)
BY_LOGS = ("claude-code", "codex")


def calls(name: str, ancestry: Ancestry | None = None) -> list[ToolSpan]:
    """The calls of a run, in order."""
    around = ancestry or Ancestry()
    found = [one for line in lines(name) for one in read_line(line, around)]
    return sorted((one for one in found if isinstance(one, ToolSpan)), key=lambda one: one.in_order)


READ = {"claude-code": "Read", "codex": "exec_command", "copilot": "view", "gemini": "read_file", "qwen": "read_file"}


@each_program
def test_every_call_is_read(name: str) -> None:
    """Four equal reads, a note beside one that fails, a command, and a sub-agent with a note of its own."""
    found = calls(name)
    assert [one.tool for one in found[:4]] == [READ[name]] * 4
    assert [one.tool.endswith("read_note") for one in found].count(True) == 2
    read = [one.read() for one in found]
    assert all(one.has_arguments for one in read)
    assert len({str(one.foreign.call.arguments) for one in read[:4] if one.foreign}) == 1
    assert len({one.foreign.call.call_id for one in read if one.foreign}) == len(read)
    assert {one.has_result for one in read[:4]} == {name != "claude-code"}
    assert all(0 < one.start <= one.end for one in found)


@pytest.mark.parametrize(
    ("name", "turns"), [("claude-code", 2), ("codex", 2), ("copilot", 1), ("gemini", 1), ("qwen", 1)]
)
def test_a_session_is_a_turn(name: str, turns: int) -> None:
    """Sub-agents whose calls have an id of their own are apart."""
    ancestry = Ancestry()
    assert len({ancestry.turn_of(one) for one in calls(name, ancestry)}) == turns


@each_program
def test_failed_calls_are_told_from_others(name: str) -> None:
    """Where the program says so. Codex and Gemini have it in the text of the result only."""
    failed = [one.read() for one in calls(name)]
    errors = {one.foreign.call.tool for one in failed if one.foreign and one.foreign.outcome.error}
    expected = {
        "claude-code": {"Read", "Bash"}, "codex": {"frobnicate"}, "copilot": {"view", "frobnicate"}, "gemini": set(),
        "qwen": {"read_file", "run_shell_command"},
    }  # fmt: skip
    assert errors == expected[name]


@each_program
def test_both_formats_have_the_same_calls(name: str) -> None:
    """JSON and protobuf."""
    here, there = Ancestry(), Ancestry()
    for line in lines(name):
        message = otlp_protobuf.decode(as_protobuf(line), is_logs="resourceLogs" in line)
        in_protobuf = [one for one in otlp_protobuf.read_message(message, here) if isinstance(one, ToolSpan)]
        in_json = [one for one in read_line(line, there) if isinstance(one, ToolSpan)]
        assert [(one.tool, one.in_order, one.span, one.trace) for one in in_protobuf] == [
            (one.tool, one.in_order, one.span, one.trace) for one in in_json
        ]
        read = [[one.read().foreign for one in found] for found in (in_protobuf, in_json)]
        assert [one and one.call for one in read[0]] == [one and one.call for one in read[1]]


def is_loop(path: Path) -> bool:
    """True if a replay finds a call that would have been refused."""
    return main(["replay", str(path), "--fail-on", "block"]) == 1


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "claude-code"])
def test_equal_reads_are_a_loop(name: str) -> None:
    """The numbers that a program writes into each result anew do not hide it."""
    assert is_loop(SAMPLES[name])


def test_calls_of_claude_code_that_fail_alike_are_a_loop(tmp_path: Path) -> None:
    """Its records have no results, so that only failures can be compared."""
    assert not is_loop(SAMPLES["claude-code"])
    repeated = tmp_path / "repeated.jsonl"
    found = [again(line, number) for number in range(5) for line in lines("claude-code") if "resourceLogs" in line]
    repeated.write_text("\n".join(map(json.dumps, found)))
    assert is_loop(repeated)


def again(line: Any, number: int) -> Any:
    """Return the records of calls that failed, as those of later calls."""
    later = copy.deepcopy(line)
    records = later["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    records[:] = [one for one in records if '"false"' in json.dumps(one)]
    for one in records:
        one["timeUnixNano"] = str(int(one["timeUnixNano"]) + number * 10**9)
        for pair in one["attributes"]:
            if pair["key"] == "tool_use_id":
                pair["value"]["stringValue"] += str(number)
    return later


def test_the_spans_of_calls_in_logs_are_no_calls() -> None:
    """Claude Code has both: each call counts once."""
    in_spans = [line for line in lines("claude-code") if "resourceSpans" in line]
    assert '"claude_code.tool"' in json.dumps(in_spans)
    found = [one for line in in_spans for one in read_line(line, Ancestry())]
    assert not any(isinstance(one, ToolSpan) for one in found)


@pytest.mark.parametrize("lasted", ["soon", "1e999", "-7", "9" * 5_000, 7.5, True, None])
def test_a_duration_that_is_none_is_no_time(lasted: Any) -> None:
    """The call is read all the same."""
    attributes = {"event.name": "codex.tool_result", "call_id": "c", "tool_name": "look", "duration_ms": lasted}
    kinds = {bool: "boolValue", float: "doubleValue", str: "stringValue"}
    pairs = [{"key": key, "value": {kinds[type(one)]: one}} for key, one in attributes.items() if one is not None]
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "1000", "attributes": pairs}]}]}]}
    (found,) = read_line(line, Ancestry())
    assert (found.start, found.end) == (1000, 1000)


def test_each_row_has_a_sample() -> None:
    """A row that nothing was recorded for may be wrong."""
    events = {row.event for row in LOG_DIALECTS}
    text = "".join(SAMPLES[name].read_text() for name in BY_LOGS)
    assert [event for event in events if f'"{event}"' not in text] == []


@pytest.mark.parametrize(
    "record", [{}, {"attributes": []}, {"timeUnixNano": "0", "attributes": [{"key": "event.name"}]}]
)
def test_other_records_are_no_calls(record: Any) -> None:
    """Programs log much else."""
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    assert list(read_line(line, Ancestry())) == []
