"""``otel-loopguard demo``: its options, what it shows, and its exit status."""

from __future__ import annotations

import re
import sys

import pytest

from otel_loopguard.cli import main as cli
from otel_loopguard.cli.demo.show import runs_of
from otel_loopguard.cli.demo.stories import SHORT, STORIES
from tests.cli.demo.conftest import SHOWN
from tests.cli.processes import command, in_terminal
from tests.telemetry.otlp import receiver

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def test_the_report_holds_no_value(results):
    """The HTML report has names, numbers and decisions only."""
    runs = list(runs_of(results.values()))
    assert [len(run.calls) for run in runs] == [len(result.rows) for result in results.values()]
    assert "config.yaml" not in str(runs)
    assert {call.decision for run in runs for call in run.calls} == {"ran", "failed", "nudged", "refused", "aborted"}


def test_plain_text_where_there_is_no_terminal(tmp_path):
    """In a pipe there are no escape codes; with --all each mode, the tokens and the page's path are there."""
    report = tmp_path / "report.html"
    done = command("demo", "--all", "--html", str(report))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [mode for mode in SHOWN if f" {mode}\n" not in done.stdout] == []
    assert "ping_pong: 3, limit 3" in done.stdout
    assert re.search(r"loopguard\.model\.tokens: [\d,]+ tokens were spent, [\d,]+ of them in loops\.", done.stdout)
    assert str(report) in done.stdout
    assert report.read_text("utf-8").startswith("<!")


def test_a_short_demo_names_what_else_there_is(tmp_path):
    """Without arguments there are three stories, the table and the other commands, and no file is left."""
    done = command("demo", more={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\d+/\d+ (.+)$", done.stdout, flags=re.MULTILINE) == list(SHORT)
    assert f"All {len(STORIES)} stories, one with LangGraph: otel-loopguard demo --all" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_among_the_first_ten_lines():
    """Who looks for ten seconds has seen what it is for, in a terminal of 80 columns."""
    first = command("demo").stdout.splitlines()[:10]
    assert [line for line in first if line.startswith("   3 refused read_file(")]


def test_the_text_of_a_refusal_is_shown_without_its_json():
    """The message is what matters; it is the same JSON each time."""
    shown = command("demo", "--story", "generic_repeat").stdout
    assert "the model reads: read_file was called with these arguments 2 times" in shown
    assert '"error"' not in shown


def test_stories_are_chosen_by_name():
    """--story may be given several times, and shows these in this order."""
    done = command("demo", "--story", "waits_for_a_job", "--story", "cycle")
    assert re.findall(r"^\d+/\d+ (.+)$", done.stdout, flags=re.MULTILINE) == ["waits_for_a_job", "cycle"]


def test_the_list_has_a_sentence_for_each_story():
    """--list runs nothing, and has each name with its sentence."""
    done = command("demo", "--list", more={"COLUMNS": "140"})
    assert done.stdout.splitlines() == [f"{name:<22} {story.title}" for name, story in STORIES.items()]


def test_what_the_owner_set_for_other_programs_does_not_matter():
    """Spans that a user's settings would drop are shown all the same."""
    done = command("demo", more={"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_SAMPLER": "always_off"})
    assert done.returncode == 0, done.stderr


def test_colours_in_a_terminal():
    """A terminal gets colours, and none where NO_COLOR is set; the words are the same, so no colour has a meaning."""
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
    coloured, plain = in_terminal("demo"), in_terminal("demo", more={"NO_COLOR": "1"})
    assert colour.search(coloured)
    assert not colour.search(plain)
    assert ESCAPES.sub("", coloured) == ESCAPES.sub("", plain)


def test_a_collector_gets_the_trips():
    """With --otlp spans and metrics of every mode arrive at the endpoint."""
    with receiver() as collector:
        done = command("demo", "--all", "--otlp", collector.endpoint)
        assert done.returncode == 0, done.stderr
        tripped = {
            attribute.value.string_value
            for span in collector.spans
            for event in span.events
            for attribute in event.attributes
            if attribute.key == "loopguard.mode"
        }
        assert tripped >= SHOWN
        assert collector.points("loopguard.trips")
        assert collector.points("loopguard.model.tokens")
        assert b"config.yaml" not in collector.all_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--otlp", "http://127.0.0.1:9"], "No answer from http://127.0.0.1:9/v1/traces"),
        (["--otlp", "ftp://somewhere"], "is no address"),
        (["--html", "/nowhere/at/all.html"], "cannot be written"),
        (["--story", "generic_repaet"], "there is no story 'generic_repaet'; did you mean generic_repeat?"),
        (["--story", "cycle", "--story", "foo"], "there is no story 'foo'; `otel-loopguard demo --list` names all."),
        (["--story", "cycle", "--all"], "not allowed with argument --story"),
        (["more"], "unrecognized arguments"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(arguments, said):
    """Wrong use is one line before any story, with status 2 and no traceback."""
    done = command("demo", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.fixture
def without_langgraph(monkeypatch):
    """A Python in which LangGraph cannot be imported, as where it is not installed."""
    monkeypatch.setitem(sys.modules, "otel_loopguard.cli.demo.langgraph_agent", None)
    monkeypatch.delattr("otel_loopguard.cli.demo.langgraph_agent", raising=False)


@pytest.mark.usefixtures("without_langgraph")
def test_without_langgraph_the_other_stories_run(capsys):
    """The story of LangGraph says what to install, and is not counted."""
    assert cli.main(["demo", "--story", "langgraph", "--story", "waits_for_a_job"]) == 0
    out = capsys.readouterr().out
    assert "Left out: this story needs LangGraph: pip install --upgrade langgraph\n" in out
    assert "\n0 refused calls in 1 working run.\n" in out


@pytest.mark.usefixtures("without_langgraph")
def test_the_story_of_langgraph_alone_needs_it(capsys):
    """The line names what to type, and the status is that of wrong use."""
    assert cli.main(["demo", "--story", "langgraph"]) == 2
    assert capsys.readouterr().err == ("otel-loopguard: this story needs LangGraph: pip install --upgrade langgraph\n")
