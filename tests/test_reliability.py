"""The campaign of docs/reliability.md, short and with a new seed at each run; and its parts do find what is broken."""

from __future__ import annotations

import base64
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("openai")

from benchmarks.reliability import canaries, faults, forks, receivers, signals, ways
from benchmarks.reliability.__main__ import PAGE, PARTS
from otel_loopguard.testing import Toolbox, Transcript, guarded
from tests.instrumentation.fault_injection import boom
from tests.scripted.by_hand import DRIVERS

ROOT = Path(__file__).resolve().parents[1]
SCALE = 0.005
TIMED = "values"
"""The part that measures times, which no test asserts; tests/engine/test_bounds.py counts the steps of its values."""


@pytest.mark.parametrize("part", [part for part in PARTS if part != TIMED])
def test_a_short_campaign_breaks_no_promise(part: str) -> None:
    """The command ends with 0, which it does only if nothing was broken."""
    command = [sys.executable, "-m", "benchmarks.reliability", part, "--scale", str(SCALE)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_page_has_the_figures_of_all_parts() -> None:
    """docs/reliability.md has a section for each part, and its command."""
    page = PAGE.read_text("utf-8")
    assert "`python -m benchmarks.reliability threads --seed" in page
    titles = [importlib.import_module(f"benchmarks.reliability.{part}").TITLE for part in PARTS]
    assert [title for title in titles if f"## {title}\n" not in page] == []


@pytest.mark.parametrize(
    "leak",
    [
        b"a ZqAB12 b",
        b"zqab12",
        b"21BAqZ",
        "ZqAB12".encode("utf-16-le"),
        b"ZqAB12".hex().encode(),
        *(base64.b64encode(before + b"ZqAB12 and more") for before in (b"", b"x", b"xy", b"xyz")),
    ],
)
def test_a_word_is_found_in_every_encoding(leak: bytes) -> None:
    """The search for canaries finds a leaked one."""
    assert any(form in leak for form in canaries.forms("ZqAB12"))
    assert not any(form in leak for form in canaries.forms("ZqCD12"))


def test_a_fault_in_a_driver_is_found() -> None:
    """A fault in a function that no shield can hold counts as a broken promise."""
    problems = list(
        faults._problems(DRIVERS["run"], faults._looping("a"), "instrumentation.functions.decorator:call", boom)
    )
    assert problems


def test_a_run_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, and counts as broken."""
    monkeypatch.setattr(faults, "LONGEST_RUN", 1)

    def hangs(functions: object, steps: object) -> Transcript:
        signal.pause()
        return Transcript()

    problems = faults._problems(hangs, faults._looping("a"), "instrumentation.functions.decorator:call", boom)
    assert next(problems) == "TimeoutError"


def test_a_request_with_another_text_is_found() -> None:
    """A sentence after a result is none."""
    tools, steps = Toolbox().functions(), faults._working("a")
    for text, is_broken in (("the text of 0 a [loopguard] again", False), ("another text", True)):
        one = ways.Conversation(tools, steps)
        one.go_on(one.reply(one.copy()))
        got = one.copy()
        got["messages"][-1]["content"] = text
        one.reply(got)
        assert (one.transcript.error is not None) is is_broken


def test_a_watcher_whose_judge_has_ended_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its senders get no error, so only the loop that is not found tells."""
    monkeypatch.setattr(receivers, "SECONDS", 1)
    monkeypatch.setattr(threading, "excepthook", receivers.Printed())
    problems = list(receivers.broken_once("shield:Shield.__call__", boom))
    assert "the judge hangs, or has ended" in problems


def test_a_hung_child_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that does not end is ended, and counts as hung."""
    monkeypatch.setattr(forks, "LONGEST_CHILD", 0.2)
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    assert forks._end_of(pid) == forks.HUNG


def test_a_swallowed_time_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a handler that does not arrive counts as lost."""

    def swallowing(seconds: float, until: object) -> None:
        while not until():  # type: ignore[operator]
            try:
                time.sleep(0.01)
            except signals.SoftTimeLimit:  # noqa: PERF203 - it strikes in one of many rounds
                return

    monkeypatch.setattr(signals, "_agent", swallowing)
    with guarded():
        assert not signals._struck(signals.Random(1), 0.0, signals.SoftTimeLimit)
