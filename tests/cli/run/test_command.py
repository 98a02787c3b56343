"""``otel-loopguard run``: programs that are started as a user starts them, and end in all the ways that programs do."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.cli.processes import COMMAND, command
from tests.instrumentation.processes import ROOT, clean_environment
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.report.test_file import data_of
from tests.telemetry.otlp import receiver as receiving

LOOP = """
import os, signal, sys, time
import otel_loopguard as loopguard

def loop(calls):
    with loopguard.turn():
        for _ in range(calls):
            loopguard.call("look", {"path": "SECRET"}, lambda path: "text")
"""
FOUND = "otel-loopguard: 6 tool calls, 1 loop.\n  look x6: 2 ran, 4 refused\n  1 turn ended: 1 answered\n"


def ran(folder, text, *options, more=None, **process):
    """The process of a run of this program, in a folder of its own."""
    (folder / "app.py").write_text(LOOP + text)
    return run("app.py", folder=folder, options=options, more=more, **process)


def run(*program, folder, options=(), more=None, **process):
    """The process of a run of a program."""
    return command("run", *options, *program, cwd=folder, env=clean_environment(more), **process)


def said(done):
    """The lines of the command, without those of the guard in the program."""
    return [line for line in done.stderr.splitlines() if not line.startswith("otel_loopguard:")]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        (
            Looping(call("read_file", path="a.txt"), rounds=25),
            [
                "otel-loopguard: 1 turn, 10 requests, 9 tool calls, 2,588 tokens (1,985 in loops); 1 loop.",
                "  read_file x9: 9 ran, the model told 7 times, tools withdrawn at 9",
                "  1 turn ended: 1 concluded",
            ],
        ),
        (
            Working(call("read_file", path="a.txt")),
            ["otel-loopguard: 1 turn, 2 requests, 1 tool call, 62 tokens; no loop.", "  1 turn ended: 1 answered"],
        ),
    ],
)
def test_a_loop_over_a_model_client_is_stopped(script, lines, tmp_path):
    """No setting and no line of code: its calls, a line for the loop, how the turn ended, and a link to the report."""
    pytest.importorskip("openai")
    with Server(script).running() as server:
        module = ("-m", "tests.models.loops", "openai.chat", server.url, "task-1: whose file is it?")
        done = run(*module, folder=tmp_path, more={"PYTHONPATH": str(ROOT)})
    report = tmp_path / "loopguard-run.html"
    found = [f"otel-loopguard: the report: {report.as_uri()}"] if len(lines) > 2 else []
    advice = [line for line in said(done) if "put @otel_loopguard.tool on the functions" in line]
    assert (done.returncode, said(done)) == (0, lines + advice + found)
    assert len(advice) == len(found)
    assert report.exists() == bool(found)
    if found:
        data = data_of(report)
        assert [row for *_, row in data["loops"]["rows"]] == [lines[1].strip()]
        assert (
            data["lead"] == "1 of 1 turn looped: 7 of 9 calls were steps of loops, and ran before the guard saw them."
        )


def test_the_program_has_its_arguments_its_input_and_its_output(tmp_path):
    """Options after the program are the program's; the command writes nothing to standard output."""
    (tmp_path / "app.py").write_text("import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(3)")
    done = run("app.py", "--quiet", "--", "-o", folder=tmp_path, input="text")
    assert (done.returncode, done.stdout) == (3, "['--quiet', '--', '-o'] text\n")


def test_the_report_of_a_run_says_what_was_refused(tmp_path):
    """Its rows are those of the terminal, and nothing in it is an hypothesis."""
    assert ran(tmp_path, "loop(6)").stderr.count("look x6: 2 ran, 4 refused") == 1
    data = data_of(tmp_path / "loopguard-run.html")
    assert (data["conditional"], data["lead"]) == (False, "1 of 1 turn looped: 4 of 6 calls did not run.")
    assert [row for *_, row in data["loops"]["rows"]] == ["look x6: 2 ran, 4 refused"]


def test_the_files_that_are_asked_for_are_written(tmp_path):
    """A report also without a loop, and the spans for replay; no argument is in them. With --quiet no word is said."""
    done = ran(tmp_path, "loop(1)", "-q", "-o", "mine.html", "--record", "spans.jsonl")
    assert (done.returncode, said(done)) == (0, [])
    page, spans = (tmp_path / "mine.html").read_text(), (tmp_path / "spans.jsonl").read_text()
    assert "look" in page
    assert "loopguard.outcome" in str([json.loads(line)["resourceSpans"] for line in spans.splitlines()])
    assert "SECRET" not in page + spans


def test_the_recording_is_named(tmp_path):
    """With the command that reads it."""
    done = ran(tmp_path, "loop(1)", "--record", "spans.jsonl")
    assert "otel-loopguard: the spans, for `otel-loopguard replay`: spans.jsonl" in said(done)


@pytest.mark.parametrize(
    ("options", "more", "row"),
    [
        (("--preset", "repeat_hint"), {}, "  look x6: 3 ran, 3 refused"),
        ((), {"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"}, "  look x6: 6 ran, 4 only observed"),
    ],
)
def test_the_policy_is_in_force(options, more, row, tmp_path):
    """That of an option, or of the environment."""
    done = ran(tmp_path, "loop(6)", *options, more=more)
    assert row in said(done)


@pytest.mark.parametrize(
    ("name", "path"), [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")]
)
def test_telemetry_goes_to_an_endpoint_that_is_set(name, path, tmp_path):
    """Its spans are exported as they are recorded."""
    with receiving() as receiver:
        protocol = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        done = ran(tmp_path, "loop(6)", more={**protocol, name: receiver.endpoint + path})
        assert len(receiver.spans) == 6
    assert FOUND in done.stderr


def test_the_ends_of_turns_are_counted(tmp_path):
    """A turn that the guard ended is no answer; one that goes on at the end of the program has none."""
    text = "loop(1)\ntry: loop(20)\nexcept loopguard.ToolLoopError: pass\nloop(1)\n"
    done = ran(tmp_path, text + "with loopguard.turn():\n    loop(1)\n    os.kill(os.getpid(), 9)")
    assert "  4 turns ended: 3 answered, 1 aborted" in said(done)


# --- programs that end in other ways -------------------------------------------------------------------------------


def test_a_program_that_a_signal_ends_is_reported(tmp_path):
    """The status is that of a shell, and the line names the signal."""
    done = ran(tmp_path, "loop(6)\nos.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL
    assert FOUND + "otel-loopguard: the program was ended by SIGKILL.\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_is_ended_before_its_first_call_is_told_nothing_else(number, tmp_path):
    """The guard may not have started yet, and that is no fault of its installation."""
    done = ran(tmp_path, f"os.kill(os.getpid(), {int(number)})\ntime.sleep(60)")
    assert done.returncode == 128 + number
    assert "otel-loopguard: no tool call was seen before the program was ended." in said(done)
    assert "not started" not in done.stderr


def test_a_signal_to_the_command_reaches_the_program(tmp_path):
    """SIGHUP and SIGTERM, as a service manager or a closed terminal sends them, end the program in its own way."""
    (tmp_path / "app.py").write_text(
        LOOP + "for number in (1, 15): signal.signal(number, lambda number, _: sys.exit(number))\n"
        "loop(6)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    for number in (signal.SIGHUP, signal.SIGTERM):
        with subprocess.Popen(
            [*COMMAND, "run", "app.py"],
            cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == number
        assert FOUND in errors


def test_the_calls_of_forked_processes_are_in_one_line(tmp_path):
    """Also those of one that ends without the interpreter's exit."""
    text = "child = os.fork()\nif not child:\n    loop(6)\n    os._exit(0)\nos.waitpid(child, 0)\nloop(1)"
    assert "otel-loopguard: 7 tool calls, 1 loop." in said(ran(tmp_path, text))


def test_a_process_that_is_left_behind_is_named(tmp_path):
    """A daemon goes on guarded; the command ends with the status of the program that it started."""
    text = (
        "ours, theirs = os.pipe()\nif os.fork():\n    os.read(ours, 1)\n    os._exit(4)\n"
        "os.setsid()\nos.write(theirs, b'1')\nfor fd in (0, 1, 2): os.close(fd)\ntime.sleep(300)"
    )
    done = ran(tmp_path, "loop(1)\n" + text)
    assert done.returncode == 4
    assert len(said(done)) == 3
    assert said(done)[2].endswith("of the program goes on: it is guarded, and not recorded any more.")
    os.kill(int(said(done)[2].split()[2]), signal.SIGKILL)


def test_a_program_that_is_no_python_is_named(tmp_path):
    """Its status is kept, and the line says that nothing was guarded."""
    done = run("--", "ls", "/nowhere", folder=tmp_path)
    assert done.returncode == 2
    assert "the guard was not started in the program" in done.stderr


def test_a_python_without_the_package_is_named_before_it_starts(tmp_path):
    """With the command that installs it there. The program runs as it would alone."""
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    (tmp_path / "app.py").write_text("import sys; print('mine', file=sys.stderr); sys.exit(5)")
    done = run("--", str(python), "app.py", folder=tmp_path)
    assert done.returncode == 5
    assert f"is not installed for {python}" in said(done)[0]
    assert f"{python} -m pip install otel-loopguard" in said(done)[0]
    assert said(done)[1] == "mine"


def test_a_program_without_a_call_names_the_doctor(tmp_path):
    """A program that ends at once is no fault, and the line has the next step."""
    done = ran(tmp_path, "")
    assert (done.returncode, len(said(done))) == (0, 1)
    assert "otel-loopguard: no tool call was seen" in done.stderr
    failed = ran(tmp_path, "sys.exit(3)")
    assert "the program ended with status 3, and no tool call was seen" in failed.stderr
    assert "otel-loopguard doctor" in done.stderr


HOOK = """
import openai
client, messages = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="local"), []
try:
    for _ in range(9):
        messages.append({"role": "user", "content": "task-1: the tests do not pass."})
        answer = client.chat.completions.create(model="gpt-4.1", messages=messages).choices[0].message
        messages.append({"role": "assistant", "content": answer.content})
except loopguard.ToolLoopError:
    pass
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [("run", "text_repeat: told at the 3rd, run ended at the 5th time"), ("watch", "only observed at the 3rd time")],
)
def test_a_loop_of_words_has_a_row_though_the_program_has_no_call(name, line, tmp_path):
    """Its turns have no call, and so no report."""
    pytest.importorskip("openai")
    (tmp_path / "app.py").write_text(f"{LOOP}\nwith loopguard.turn():\n{textwrap.indent(HOOK, '    ')}")
    with Server(Working()).running() as server:
        done = command(name, "app.py", server.url, cwd=tmp_path, env=clean_environment())
    assert line in done.stderr
    assert not (tmp_path / f"loopguard-{name}.html").exists()


# --- files and streams that cannot be written ----------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-o", "--record"])
@pytest.mark.parametrize(("path", "why"), [("/no/such/folder/file", "No such file"), ("/dev/full", "No space left")])
def test_a_file_that_cannot_be_written_is_one_line(option, path, why, tmp_path):
    """The program runs all the same, and is guarded."""
    done = ran(tmp_path, "loop(6)\nsys.exit(3)", option, path)
    assert done.returncode == 3
    (line,) = [line for line in said(done) if path in line]
    assert why in line
    assert "Traceback" not in done.stderr
    assert FOUND in done.stderr
    assert (tmp_path / "loopguard-run.html").exists() == (path != "/dev/full" or option != "-o")


def test_a_full_disk_costs_the_report_only(tmp_path):
    """The program goes on when the recording cannot grow, and a line says why calls are missing."""
    text = "import resource\nloop(1)\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nloop(1)\nsys.exit(3)"
    done = ran(tmp_path, text)
    assert done.returncode == 3
    assert done.stderr.count("A call cannot be recorded (File too large)") == 1
    assert "otel-loopguard: 1 tool call, no loop." in said(done)


def test_without_any_room_the_program_is_guarded(tmp_path):
    """There is no folder for the recording: the guard's own line at exit has the counts."""
    done = ran(tmp_path, "loop(6)", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 0
    assert "the program is guarded, and there will be no report" in said(done)[0]
    assert "otel_loopguard: 6 tool calls, 1 loop" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_closed_streams_change_nothing(closed, tmp_path):
    """The status is that of the program, and the report is written."""
    (tmp_path / "app.py").write_text(LOOP + "loop(6)\nos._exit(3)")
    shell = f'"$0" -m otel_loopguard.cli.main run app.py {closed}'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3
    assert (tmp_path / "loopguard-run.html").exists()
    assert "Traceback" not in done.stdout + done.stderr


def test_a_terminal_that_closes_does_not_end_a_program_that_goes_on(tmp_path):
    """Under nohup the program runs to its end, and the report is written."""
    (tmp_path / "app.py").write_text(
        LOOP + "print('ready', flush=True)\nos.read(int(sys.argv[1]), 1)\nloop(6)\nos._exit(3)"
    )
    ours, theirs = pty.openpty()
    reading, writing = os.pipe()
    with subprocess.Popen(
        ["nohup", *COMMAND, "run", "app.py", str(reading)],
        cwd=tmp_path, env=clean_environment(), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        pass_fds=[reading], start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        assert process.stdout.readline() == b"ready\n"
        os.close(ours)
        os.write(writing, b"1")
        assert process.wait(timeout=60) == 3
    assert (tmp_path / "loopguard-run.html").exists()
    for fd in (reading, writing):
        os.close(fd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the program"),
        (("no-such.py",), "no-such.py: there is no such file"),
        (("--", "no-such-program"), "no-such-program: there is no such program"),
        (("text.txt",), "text.txt: it is neither a .py file nor executable"),
        (("-m",), "-m: name the module"),
        (("--preset", "no_such", "--", "ls"), "no_such"),
        (("--policy", "no-such.toml", "--", "ls"), "no-such.toml"),
    ],
)
def test_wrong_use_is_a_line(arguments, message, tmp_path):
    """The status is 2, and nothing is started."""
    (tmp_path / "text.txt").write_text("Not a program.")
    done = run(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
