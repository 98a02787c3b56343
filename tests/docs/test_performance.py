"""docs/performance.md is written by a run, and no other page has figures of it."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.performance.__main__ import GOALS, MARK, PAGE

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"[^.\n]*(?:\n[^.\n]+)*\[[^]]*\]\((?:docs/)?performance\.md\)[^.]*\.")


def generated() -> str:
    return PAGE.read_text("utf-8").partition(MARK)[2]


def test_the_figures_come_from_a_run_that_says_where_and_when():
    """Date, processors, load, Python and the versions; a short run says that it is one."""
    first = generated().strip().partition("\n\n")[0]
    assert re.match(
        r"Measured on \d{4}-\d\d-\d\d by `python -m benchmarks\.performance(`| --quick`, a short run with few rounds): "
        r"\d+ processors",
        first,
    )
    for word in ("load before", "Python 3.", "opentelemetry-sdk "):
        assert word in first


def test_every_goal_has_an_answer():
    """A goal is met, not met, or not measured, and then its row says why; the conclusion counts them."""
    goals = []
    for table in re.findall(r"(?:^\|.*\n)+", generated(), re.MULTILINE):
        head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        named = [dict(zip(head, cells, strict=False)) for cells in rows]
        goals += [row for row in named if row.get("goal", "").strip()]
    answers = [row["goal"].partition(": ")[2].strip().removesuffix(", uncertain") for row in goals]
    assert len(goals) > 15
    for row, answer in zip(goals, answers, strict=True):
        assert answer in {"yes", "**no**"} or row.get("note"), row
    assert f"## {GOALS}\n\n{answers.count('yes')} of {len(goals)} are met." in generated()


def test_other_pages_refer_to_the_figures_and_do_not_repeat_them():
    """A figure that is written twice is wrong in one place after the next run."""
    sentences = [
        sentence
        for page in (ROOT / "README.md", ROOT / "docs" / "comparison.md")
        for sentence in LINK.findall(page.read_text("utf-8"))
    ]
    assert len(sentences) >= 2
    assert [one for one in sentences if re.search(r"\d", one)] == []
