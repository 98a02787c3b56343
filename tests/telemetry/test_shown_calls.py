"""Arguments on one's own screen, by choice: how they are shown, and the pipe that takes them there."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

import otel_loopguard as loopguard
from otel_loopguard import ToolLoopError
from otel_loopguard.engine.vocabulary import Action, Trip
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.telemetry.shown_calls import LONGEST, ShownCall, pipe_name, pipe_of, shown_call
from otel_loopguard.testing import guarded
from tests.canary import CANARY, found_in, texts

TRIP = Trip("generic_repeat", "look", 3, 3, Action.BLOCK)
CALL = ShownCall("look", "generic_repeat", "block", 'path="a"')


def endless():
    value = {}
    value["own"] = value
    return value


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"customer": "ada", "limit": 3, "tags": ["ä", None]}, 'customer="ada", limit=3, tags=["ä", null]'),
        ('{"customer": "ada"}', 'customer="ada"'),
        ("no json\n\t", '"no json\\n\\t"'),
        (None, "null"),
        ({}, ""),
        ({1: 2, None: 3}, "<int>=2, <NoneType>=3"),
        ([1, {"a": b"x"}], '[1, {"a": "<bytes>"}]'),
        ({"own": object()}, 'own="<object>"'),
        (endless(), "own=<dict>"),
        ({"path": "\x1b[2J\u202e\ud800\x85"}, r'path="\u001b[2J\u202e\ud800\u0085"'),
        ({"tab\tname": 1}, r"tab\tname=1"),
    ],
)
def test_arguments_are_one_line_of_text(arguments, shown):
    """Mappings and JSON are names and values; nothing can move the cursor or end the line."""
    assert shown_call(TRIP, "look", arguments).arguments == shown


@pytest.mark.parametrize(
    "arguments", [{"path": "a" * 10_000_000}, "a" * 1_000_000, {"p": list(range(1000))}, {"a" * 99: 1}]
)
def test_long_arguments_are_cut(arguments):
    """80 characters are shown, the last three as dots."""
    shown = shown_call(TRIP, "look", arguments).arguments
    assert len(shown) == LONGEST
    assert shown.endswith("...")


@pytest.fixture
def pipe():
    """The two ends of a pipe that a program has inherited."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    yield ours, theirs
    for file in (ours, theirs):
        with suppress(OSError):
            os.close(file)


def test_a_call_is_a_line_in_the_pipe(pipe):
    """Its fields are separated by tabs."""
    ours, theirs = pipe
    pipe_of(pipe_name(theirs))(CALL)
    assert os.read(ours, 1000) == b'look\tgeneric_repeat\tblock\tpath="a"\t\n'


@pytest.mark.parametrize("name", ["", "x", "99999:1:1", "0:0:0", "-1:0:0", "9" * 30])
def test_a_process_without_the_pipe_shows_nothing(name):
    """The variable is inherited by processes that have not inherited the pipe."""
    assert pipe_of(name) is None


def test_nothing_is_written_to_another_file_of_the_same_number(pipe, tmp_path):
    """A program that becomes a daemon closes all files, and opens a log in their place."""
    _, theirs = pipe
    write = pipe_of(pipe_name(theirs))
    with (tmp_path / "log").open("wb") as log:
        os.dup2(log.fileno(), theirs)
        write(CALL)
    assert (tmp_path / "log").read_bytes() == b""


def test_a_full_pipe_makes_no_program_wait(pipe):
    """A call that does not fit is left out, whole."""
    ours, theirs = pipe
    write = pipe_of(pipe_name(theirs))
    for _ in range(10_000):
        write(CALL)
    os.close(theirs)
    with open(ours, "rb", closefd=False) as file:
        assert set(file.read().splitlines()) == {b'look\tgeneric_repeat\tblock\tpath="a"\t'}


def test_a_call_of_more_than_a_pipe_takes_at_once_is_left_out(pipe):
    """Lines of several processes cannot mix."""
    ours, theirs = pipe
    pipe_of(pipe_name(theirs))(CALL._replace(tool="x" * select.PIPE_BUF))
    assert not select.select([ours], [], [], 0)[0]


def test_a_reader_that_is_gone_ends_no_program():
    """Also one that has the default of SIGPIPE, which would end it."""
    program = f"""
import os, signal
from otel_loopguard.telemetry.shown_calls import ShownCall, pipe_name, pipe_of
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ours, theirs = os.pipe()
write = pipe_of(pipe_name(theirs))
os.close(ours)
write(ShownCall(*{tuple(CALL)!r}))
print("goes on")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "goes on\n"), (done.stderr, signal.SIGPIPE)


def test_no_telemetry_has_an_argument_while_it_is_shown(pipe, caplog):
    """Neither spans, metrics and log records nor the program's log, in any encoding; a loop that runs to its end."""
    ours, theirs = pipe
    with caplog.at_level(logging.DEBUG), guarded(settings=Settings(log_events=True)) as recording:
        recording.runtime.providers.events.show = pipe_of(pipe_name(theirs))
        with suppress(ToolLoopError), loopguard.turn():
            for number in range(40):
                loopguard.call("look", {"path": CANARY}, lambda path: "text", call_id=f"call_{number}")
        exported = texts([json.loads(span.to_json()) for span in recording._spans.get_finished_spans()])
        exported += texts(json.loads(recording._metrics.get_metrics_data().to_json()))
        exported += [f"{log.event_name} {log.body} {dict(log.attributes)}" for log in recording.logs]
    assert found_in(os.read(ours, 100_000).decode()) != []  # it was there to be exported
    assert any("tool_loop_detected" in text for text in exported)
    assert found_in(*exported, caplog.text) == []


def test_forked_processes_share_the_pipe(pipe):
    """Each line is whole."""
    ours, theirs = pipe
    write = pipe_of(pipe_name(theirs))
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            for _ in range(50):
                write(CALL._replace(arguments=f"{number}" * LONGEST))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os.close(theirs)
    with open(ours, "rb", closefd=False) as file:
        lines = file.read().decode().splitlines()
    assert {line.split("\t")[3] for line in lines} == {f"{number}" * LONGEST for number in range(4)}
