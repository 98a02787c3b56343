"""The output of the demo at each width: nothing is cut, and no line is wider than the terminal."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from otel_loopguard.cli.demo.show import Narrator, Screen, print_list, print_summary
from otel_loopguard.cli.demo.stories import STORIES
from tests.cli.processes import command, in_terminal

WIDTHS = (40, 50, 80, 200)
CHOSEN = ("cycle", "global_circuit_breaker", "edits_and_tests")
ARGUMENTS = [part for name in CHOSEN for part in ("--story", name)]
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
UNFOLDED = 100_000


def shown(capsys, results, width: int) -> tuple[str, str]:
    """Show the stories at a width, and return the text of the stories and that of the summary."""
    screen = Screen(width)
    narrator = Narrator(screen)
    for number, result in enumerate(results, start=1):
        narrator.story(result.story, number, len(results))
        for place, row in enumerate(result.rows, start=1):
            narrator.row(place, row)
        narrator.end(result)
    stories = capsys.readouterr().out
    print_summary(screen, results)
    return stories, capsys.readouterr().out


def too_wide(text: str, width: int) -> list[str]:
    return [line for line in text.splitlines() if len(line) > width]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_story_has_all_its_words_at_each_width(width, results, capsys):
    """The words of calls, reasons and texts are those of the unfolded lines, and no line is wider."""
    stories, summary = shown(capsys, list(results.values()), width)
    full, _ = shown(capsys, list(results.values()), UNFOLDED)
    assert Counter(stories.split()) == Counter(full.split())
    assert too_wide(stories + summary, width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_has_all_its_numbers_at_each_width(width, results, capsys):
    """Each story has the numbers of the table, also where it does not fit and each row is some lines."""
    _, summary = shown(capsys, list(results.values()), width)
    _, full = shown(capsys, list(results.values()), UNFOLDED)
    table = full.split("\n\n")[0].strip().splitlines()[1:]
    words = Counter(re.findall(r"[\w,]*\w", summary))
    wanted = Counter(re.findall(r"[\w,]*\w", "\n".join(table)))
    assert len(table) == len(STORIES)
    assert wanted <= words


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_has_all_its_words_at_each_width(width, capsys):
    """Names and sentences are complete."""
    print_list(Screen(width))
    listed = capsys.readouterr().out
    assert listed.split() == " ".join(f"{name} {story.title}" for name, story in STORIES.items()).split()
    assert too_wide(listed, width) == []


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_real_terminal_gets_what_a_pipe_gets(columns):
    """In a terminal of this width the same words are there as in a pipe, and no line is folded by the terminal."""
    told = ESCAPES.sub("", in_terminal("demo", *ARGUMENTS, columns=columns)).replace("\r", "")
    piped = command("demo", *ARGUMENTS, more={"COLUMNS": str(columns)}).stdout
    assert told == piped
    assert too_wide(told, columns) == []


def test_a_pipe_is_80_columns_wide():
    """Where no width is known it is 80."""
    piped = command("demo", *ARGUMENTS).stdout
    assert too_wide(piped, 80) == []
    assert max(map(len, piped.splitlines())) > 70


def test_each_call_with_a_text_has_it_or_names_the_one_above(results, capsys):
    """Each nudged or refused call has the line: a text is shown once, and named from then on."""
    stories, _ = shown(capsys, [results["error_repeat"]], UNFOLDED)
    with_text = [row for row in results["error_repeat"].rows if row.mode]
    assert stories.count("the model reads: ") == len(with_text)
    assert stories.count("the model reads: as above") == 2


def test_ran_and_refused_add_up_to_all_calls(results, capsys):
    """The line of a story has the numbers of the table."""
    stories, summary = shown(capsys, [results["error_repeat"]], UNFOLDED)
    assert "13 calls: 10 ran, 5 of them nudged, 3 refused: " in stories
    assert re.search(r"^error_repeat +13 +10 +5 +3 ", summary, re.MULTILINE)
    assert "\n3 refused calls in 1 stuck run.\n" in summary


def test_only_runs_of_the_demo_are_summed_up(results, capsys):
    """A story that works has no sum of stuck runs."""
    _, summary = shown(capsys, [results["edits_and_tests"]], UNFOLDED)
    assert "\n0 refused calls in 1 working run.\n" in summary
    assert "stuck" not in summary
