"""The figures of docs/performance.md are what they say: medians, ratios, goals, and what could not be measured."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks import workload
from benchmarks.harness import Goal, Row, Section, cells, compared, dump, interleaved, load, times
from benchmarks.performance import __main__ as performance
from benchmarks.performance import call as calls
from benchmarks.performance import frameworks, replay
from otel_loopguard import call, instrument, turn, uninstrument

ROWS = [
    Row("the base", [2.0, 4.0, 8.0]),
    Row("ours", [3.0, 6.0, 40.0], base=[2.0, 4.0, 8.0], base_name="base", goal=times(1.75)),
    Row("others", [], goal=Goal(5), note="not measured, it could not be installed"),
]


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds():
    """A busy round is slow in both, and does not move the ratio; a slow round of one is one of three."""
    assert ROWS[1].ratios == [1.5, 1.5, 5.0]
    assert cells(ROWS[1])[:5] == ("ours", "us", "3", "6", "1.5 x base")


def test_goals_are_judged_by_the_median():
    """A goal with an x is that of the ratio; a row without a figure does not meet its goal."""
    assert Row("a", [1.0, 2.0, 9.0], goal=Goal(2)).met is True
    assert Row("a", [1.0, 2.1, 2.2], goal=Goal(2)).met is False
    assert Row("a", [1.0, 2.0, 9.0], goal=Goal(3, at_least=True)).met is False
    assert ROWS[1].met is True
    assert ROWS[2].met is None
    assert cells(ROWS[2])[5:] == ("<= 5", "not measured", "not measured, it could not be installed")


def test_a_goal_within_the_spread_is_uncertain():
    """On a busy machine a median may be on the right side by luck."""
    assert cells(Row("a", [1.0, 1.5, 1.9, 5.0, 9.0], goal=Goal(2)))[6] == "yes, uncertain"
    assert cells(Row("a", [1.0, 1.5, 1.6, 1.7, 9.0], goal=Goal(6)))[6] == "yes"
    assert cells(Row("a", [1.0, 1.5, 2.1, 5.0, 9.0], goal=Goal(2)))[6] == "**no**, uncertain"


def test_a_base_that_is_lost_in_noise_has_no_ratio():
    """What a bare span adds is a difference, and may be below zero: a ratio to that would meet any goal."""
    values = [200.0, 210.0, 190.0, 205.0, 220.0]
    lost = Row("ours", values, base=[-10.0, -20.0, 5.0, -30.0, -2.0], base_name="bare span", goal=times(2))
    assert (lost.ratios, lost.met) == ([], None)
    assert cells(lost)[4:] == ("", "<= 2 x", "not measured", "the base was lost in noise in 4 of 5 rounds")
    once = Row("ours", values, base=[100.0, 105.0, 95.0, 0.0, 110.0], base_name="bare span", goal=times(2))
    assert (once.ratios, once.met) == ([2.0] * 4, True)
    assert cells(once)[7] == "the base was lost in noise in 1 of 5 rounds"


@pytest.fixture(name="cases")
def _cases():
    made = calls.Cases(15)
    yield made
    made.close()


def test_the_base_of_tasks_has_nothing_of_ours(cases, monkeypatch):
    """A turn in the base would make the ratio smaller."""
    opened = []
    monkeypatch.setattr(calls, "turn", lambda: opened.append(1) or turn())
    for name, case in cases.async_cases().items():
        before = len(opened)
        assert case() > 0
        assert (len(opened) > before) == ("bare" not in name)


def test_the_work_of_the_exporters_thread_is_measured(cases):
    """Durations are passed on at a collection: a figure without it would leave a part of a call out."""
    assert cases.sync_cases()[calls.COLLECTED]() > 0


def test_cases_take_turns_and_the_first_round_does_not_count():
    """Each round begins with another case."""
    order = []
    found = interleaved({name: lambda name=name: order.append(name) or len(order) for name in "abc"}, 2)
    assert "".join(order) == "abcbcacab"
    assert found == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}
    assert [row.base for row in compared(found, "a", "a")] == [[], [6, 8], [6, 8]]


def test_figures_pass_from_a_benchmark_to_the_page_unchanged():
    """A benchmark is a process, and writes JSON."""
    section = Section("title", "about", ROWS)
    assert load(dump([section])) == [section]


def test_the_page_keeps_what_is_written_by_hand():
    """A run replaces what is below the mark, and gathers the goals in front."""
    text = performance.page([Section("A table", "About it.", ROWS)], "The machine.")
    by_hand = performance.PAGE.read_text("utf-8").partition(performance.MARK)[0]
    assert text.startswith(by_hand)
    generated = text.partition(performance.MARK)[2]
    assert generated.index("The machine.") < generated.index("## The goals") < generated.index("## A table")
    assert "\n\n1 of 2 are met.\n\nNot measured:\n\n- A table: others.\n\n" in generated
    assert "| what | median, us (quartiles) | x base (quartiles) | goal | note |" in generated
    assert "| ours | 6 | 1.5 | <= 1.75 x: yes, uncertain |  |" in generated
    assert "could not be installed" in generated


def test_a_benchmark_that_fails_does_not_end_the_run(tmp_path, monkeypatch, capsys):
    """The page has a line with the reason, and all other figures."""
    monkeypatch.setattr(performance, "PARTS", ("no_such_part",))
    monkeypatch.setattr(sys, "argv", ["performance", "--quick", "--output", str(tmp_path / "page.md")])
    assert performance.main() == 1
    assert "`python -m benchmarks.performance.no_such_part` failed" in (tmp_path / "page.md").read_text("utf-8")
    assert "no_such_part" in capsys.readouterr().err


def test_a_library_that_cannot_be_loaded_is_a_row_with_the_reason(monkeypatch):
    """The other libraries of the framework are measured all the same."""
    case = frameworks.CASES[0]._replace(
        others=(frameworks.Library("Another", "opentelemetry-sdk", "no.such.module:Class"),), runs=1
    )
    monkeypatch.setattr(frameworks, "python_of", lambda *_: sys.executable)
    rows = {row.what: row for row in frameworks.measured_in(case, rounds=1, generations=2).rows}
    assert "No module named 'no'" in rows["Another, added"].note
    assert rows["Another, added"].values == []
    assert len(rows["otel_loopguard, added"].values) == 2


def test_a_library_that_cannot_be_installed_is_a_row_with_the_reason(monkeypatch):
    """Nothing is left out without a word, and the run goes on."""

    def environment(*_, **__):
        raise subprocess.CalledProcessError(1, "uv", output="a line\nno solution found\n")

    monkeypatch.setattr(frameworks, "environment", environment)
    for case in frameworks.CASES:
        first, *rows = frameworks.measured_in(case, rounds=1, generations=2).rows
        assert first.what == "a call without anything"
        assert [row.what for row in rows] == [
            f"{name}, added" for name in ("bare span", "otel_loopguard", *(one.name for one in case.others))
        ]
        assert {row.note for row in rows} == {"not measured, it could not be installed: no solution found"}
        assert not any(row.values or row.met for row in rows)


def test_libraries_that_do_not_fit_into_one_environment_get_one_each(monkeypatch):
    """A conflict of two libraries is no reason to leave both out."""
    made = []

    def environment(name, requirements):
        made.append((name, requirements))
        if len(requirements) > 3:
            raise subprocess.CalledProcessError(1, "uv", output="conflict")
        return sys.executable

    monkeypatch.setattr(frameworks, "environment", environment)
    case = frameworks.CASES[0]
    assert frameworks.python_of(case, case.others[1]) == sys.executable
    assert made[-1] == (
        "bench-langchain-opentelemetry-instrumentation-langchain",
        ("langchain", "langgraph", "opentelemetry-instrumentation-langchain"),
    )


def test_without_the_recorded_runs_the_replay_is_not_measured(monkeypatch):
    """Runs that are made up are easier, and would meet the goal for us."""
    monkeypatch.setattr(replay, "recorded_lines", list)
    (section,) = replay.sections(quick=True)
    assert section.rows
    assert all(row.met is None and row.goal and row.note for row in section.rows)


def test_the_bare_span_has_the_attributes_of_a_guarded_call():
    """The base would be too cheap, or too dear, with others."""
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(tracer_provider=tracers, meter_provider=MeterProvider())
    try:
        with turn():
            call(workload.TOOL, workload.arguments(), lambda **_: workload.result(), known_tools=(workload.TOOL,))
    finally:
        uninstrument()
    span, _turn = exporter.get_finished_spans()
    assert set(span.attributes) == set(workload.ATTRIBUTES)
    assert {name: type(value) for name, value in span.attributes.items()} == {
        name: type(value) for name, value in workload.ATTRIBUTES.items()
    }


@pytest.mark.parametrize("size", [20, 1_500, 2_048])
def test_results_differ_from_each_other(size):
    """Equal results, or such that differ in numbers alone, would be compared at length."""
    drawn = [workload.result(size) for _ in range(100)]
    assert {len(text) for text in drawn} == {size}
    assert len({"".join(filter(str.isalpha, text)) for text in drawn}) == 100
