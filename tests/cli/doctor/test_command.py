"""``otel-loopguard doctor``: its findings in this environment, and in programs that it starts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from otel_loopguard.cli.doctor.diagnosis import Diagnosis
from otel_loopguard.cli.doctor.endpoint import of_exporters
from otel_loopguard.cli.doctor.finding_kinds import BREAKS, KINDS, OPEN, TELLS, WARNS, finding
from otel_loopguard.cli.doctor.findings import _of_selftest
from otel_loopguard.errors import DOCS
from tests.cli.processes import COMMAND, command, environment
from tests.models.scripts import Looping, call
from tests.models.server import Server
from tests.telemetry.otlp import receiver

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "langgraph_agent.py"

LOOP = """
import otel_loopguard as loopguard

@loopguard.tool
def read_file(path):
    return "the text"
"""
STRONG = LOOP + "with loopguard.turn():\n    for _ in range(4):\n        read_file('SECRET')\n"
WEAK = LOOP + "for _ in range(4):\n    read_file('SECRET')\n"


def examined(tmp_path, *program, more=None):
    """The doctor's JSON about this program, and the process."""
    output = tmp_path / "found.json"
    done = command("doctor", "--json", "--output", str(output), "--", *program, more=more)
    return json.loads(output.read_text("utf-8")), done


def script(tmp_path, text):
    path = tmp_path / "app.py"
    path.write_text(text, "utf-8")
    return sys.executable, str(path)


def codes(found):
    # A package that is installed here may be newer than the newest that was tested.
    return {one["code"] for one in found["findings"]} - {"newer-than-tested"}


def selftest(more=None):
    done = command("doctor", "--json", more=more)
    return json.loads(done.stdout), done


# --- this environment ----------------------------------------------------------------------------------------------


def test_a_guarded_environment_is_fine():
    """The self-test loops, sees it refused in a strong turn, resolves all places of all frameworks: status 0."""
    found, done = selftest()
    assert (done.returncode, done.stderr, found["ok"], found["verdict"]) == (0, "", True, "installed")
    assert codes(found) == {"exporter-none"}
    (process,) = found["processes"]
    assert process["tested"] == {"by-hand": "refused"}
    for framework in process["frameworks"]:
        assert {target["state"] for target in framework["targets"]} <= {"held", "absent"}
        assert "held" in {target["state"] for target in framework["targets"]}
    assert {call["source"] for call in process["calls"]} == {"explicit"}
    assert process["telemetry"]["processor"] is True


@pytest.mark.parametrize(
    ("given", "found"), [({}, "2"), ({"OTEL_EXPORTER_OTLP_TIMEOUT": "7"}, "7")], ids=["usual", "set"]
)
def test_a_program_does_not_wait_long_for_a_collector_that_is_away(tmp_path, given, found):
    """Each exporter tries for two seconds, not ten, unless the user has said how long."""
    program = script(tmp_path, STRONG + "import os\nprint(os.environ['OTEL_EXPORTER_OTLP_TIMEOUT'])")
    assert examined(tmp_path, *program, more=given)[1].stdout == f"{found}\n"


def test_the_self_test_is_not_exported():
    """No trip of the doctor's own loops reaches the user's collector, which only gets an empty request."""
    with receiver() as collector:
        found, done = selftest({**collector.environment, "OTEL_SERVICE_NAME": "shop"})
        assert (done.returncode, codes(found)) == (0, set())
        assert collector.spans == []
        assert not collector.points("loopguard.trips")
        assert collector.bodies["/v1/traces"] == [b""]


def test_text_for_people():
    """Plain text has the guard's state, each setting with its source, each finding with its remedy and its section."""
    done = command("doctor", more={"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"})
    assert done.returncode == 0
    assert "guard: on, action observe" in done.stdout
    assert 'action = "observe"  # OTEL_PYTHON_LOOPGUARD_ACTION' in done.stdout
    assert "[only-observing]" in done.stdout
    assert "set OTEL_PYTHON_LOOPGUARD_ACTION=block" in done.stdout
    assert "/docs/doctor.md#only-observing\n" in done.stdout


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"OTEL_PYTHON_LOOPGUARD_ACTION": "off"}, ["action-off"]),
        ({"OTEL_PYTHON_LOOPGUARD_ACTION": "blok"}, ["variable-mistake"]),
        ({"OTEL_PYTHON_LOOPGUARD_ACTIONS": "block"}, ["variable-mistake"]),
        ({"OTEL_PYTHON_CONFIGURATOR": "none"}, ["no-sdk"]),
        ({"OTEL_SDK_DISABLED": "true"}, ["sdk-disabled"]),
        (
            {
                "OTEL_PYTHON_LOOPGUARD_EVENT": "log",
                "OTEL_PYTHON_LOOPGUARD_HASH_KEY": "pw1",
                "OTEL_TRACES_SAMPLER": "traceidratio",
                "OTEL_TRACES_SAMPLER_ARG": "0.2",
            },
            ["unread-variable", "hash-key", "sampled-out"],
        ),
    ],
    ids=str,
)
def test_settings_that_matter(tmp_path, settings, expected):
    """Each wrong or weakening setting has its finding; the status is 1 where it is a problem."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more=settings)
    assert codes(found) >= set(expected)
    assert done.returncode == any(KINDS[code].level == BREAKS for code in expected)


def test_a_misspelt_variable_reads_its_whole_name(tmp_path):
    """The remedy is about the variable, not about a file, and the suggestion can be copied."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more={"OTEL_PYTHON_LOOPGUARD_ACTON": "observe"})
    (one,) = [one for one in found["findings"] if one["level"] == BREAKS]
    assert (done.returncode, one["code"]) == (1, "variable-mistake")
    assert "did you mean OTEL_PYTHON_LOOPGUARD_ACTION?" in one["text"]
    assert "FILE" not in one["remedy"]


@pytest.mark.parametrize("program", [STRONG, "pass"])
def test_a_guard_that_is_switched_off_is_the_only_finding_about_it(tmp_path, program):
    """No other finding names a remedy for what follows from it, such as tools to decorate."""
    more = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "loopguard"}
    found, done = examined(tmp_path, *script(tmp_path, program), more=more)
    assert (done.returncode, codes(found)) == (1, {"switched-off"})


def test_the_hash_key_is_never_shown(tmp_path):
    """The report contains the name of the variable that sets the key, and never the key."""
    for form in ([], ["--json"]):
        program = ["--", *script(tmp_path, STRONG)]
        done = command("doctor", *form, *program, more={"OTEL_PYTHON_LOOPGUARD_HASH_KEY": "a-key-of-mine"})
        assert "a-key-of-mine" not in done.stdout + done.stderr
        assert "OTEL_PYTHON_LOOPGUARD_HASH_KEY" in done.stderr


def test_an_endpoint_where_nobody_answers_and_its_password():
    """A dead endpoint is named without the user and password in its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:PASSWORD@127.0.0.1:{port}",
    }
    found, done = selftest(more)
    assert "endpoint-silent" in codes(found)
    assert f"127.0.0.1:{port}/v1/traces" in done.stdout
    assert "PASSWORD" not in done.stdout + done.stderr


def test_an_endpoint_that_refuses():
    """An endpoint that answers, but not with success, is a finding with its status."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_error(401)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        more = {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        }
        found, _ = selftest(more)
        server.shutdown()
    (one,) = [one for one in found["findings"] if one["code"] == "endpoint-refuses"]
    assert "401" in one["text"]


# --- a program -----------------------------------------------------------------------------------------------------


def test_a_real_program_as_it_is(tmp_path):
    """An agent's own output stays its own; its calls are seen in its run's turn, refused, its places held."""
    pytest.importorskip("langchain")
    found, done = examined(tmp_path, sys.executable, str(EXAMPLE))
    assert (done.returncode, found["ok"], found["program_status"]) == (0, True, 0)
    assert "The file was read 2 times." in done.stdout
    assert "otel-loopguard" not in done.stdout
    (process,) = found["processes"]
    assert {(call["source"], call["enforced"]) for call in process["calls"]} == {("run", True)}
    assert {call["outcome"] for call in process["calls"]} == {"executed", "nudged", "blocked"}


def test_calls_that_are_only_watched(tmp_path):
    """Calls outside any known run are a problem; the remedy works."""
    found, done = examined(tmp_path, *script(tmp_path, WEAK))
    assert (done.returncode, "only-observed" in codes(found)) == (1, True)
    found, done = examined(tmp_path, *script(tmp_path, STRONG))
    assert (done.returncode, "only-observed" in codes(found)) == (0, False)
    enforced = {"OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN": "true"}
    found, done = examined(tmp_path, *script(tmp_path, WEAK), more=enforced)
    assert (done.returncode, "only-observed" in codes(found)) == (0, False)


def test_a_problem_says_what_was_not_guarded(tmp_path):
    """The finding begins with it, and the last line names the findings to read."""
    done = command("doctor", "--", *script(tmp_path, WEAK))
    assert re.search(r"^problem: Not guarded: \d+ calls? of no known turn", done.stderr, re.M)
    assert done.stderr.endswith("Loops may run on here: see [only-observed].\n")


def test_no_value_is_told(tmp_path):
    """The program's arguments and results are nowhere in the doctor's output."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG))
    assert "SECRET" not in json.dumps(found) + done.stderr
    assert "the text" not in json.dumps(found)


def test_the_exit_status_of_the_program_is_told(tmp_path):
    """A program that fails is a warning, and its status is in the report."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG + "raise SystemExit(7)\n"))
    assert (done.returncode, found["program_status"]) == (0, 7)
    assert "program-failed" in codes(found)


@pytest.mark.parametrize(
    "end",
    [
        "    for _ in range(20):\n        read_file('a')\n",
        "    try:\n        for _ in range(20):\n            read_file('a')\n"
        "    except loopguard.ToolLoopError as error:\n        raise RuntimeError('the tool failed') from error\n",
    ],
)
def test_a_program_that_the_guard_ends_reads_where_to_catch_the_error(tmp_path, end):
    """A ToolLoopError that nothing catches ends the program: the finding names it, and the page on catching it."""
    found, done = examined(tmp_path, *script(tmp_path, LOOP + "with loopguard.turn():\n" + end))
    (one,) = [one for one in found["findings"] if one["level"] == "warns"]
    assert (done.returncode, found["program_status"], one["code"]) == (0, 1, "ended-by-guard")
    assert "ended with status 1, because it does not catch the RunStopped" in one["text"]
    page = one["remedy"].rpartition(f"{DOCS}/")[2]
    assert (ROOT / "docs" / page).is_file()


def test_ctrl_c_in_the_self_test_is_no_finding():
    """It is not reported as a broken installation: the doctor is interrupted, with the status of Ctrl-C."""
    interrupted = "import os, signal; [os.kill(pid, signal.SIGINT) for pid in (os.getppid(), os.getpid())]"
    doctor = (
        "import sys\nfrom otel_loopguard.cli.doctor import command\nfrom otel_loopguard.cli.main import main\n"
        f"command._SELFTEST = [sys.executable, '-c', {interrupted!r}]\nsys.exit(main(['doctor']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", doctor], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "otel-loopguard: interrupted\n")


def test_loops_that_are_only_seen_in_requests_are_ended_and_not_refused(tmp_path):
    """The verdict says so: each repeat had run when the guard read it."""
    pytest.importorskip("openai")
    with Server(Looping(call("search", query="Ada"), answer="Ada is there.")).running() as server:
        program = [sys.executable, "-m", "tests.models.loops", "openai.chat", server.url, "task-1: who is it?"]
        found, done = examined(tmp_path, *program, more={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, found["verdict"]) == (0, "ended"), done.stderr


@pytest.mark.parametrize(
    ("sources", "verdict"), [(["messages"], "ended"), (["messages", "run"], "stopped"), ([], "stopped")]
)
def test_one_call_of_an_executor_is_enough_to_say_stopped(sources, verdict):
    """Calls that only spans of others show have no source, and were not read in requests."""
    reports = [{"calls": [{"source": source} for source in sources]}]
    assert Diagnosis([], reports, {}, 0).verdict == verdict


def test_input_is_the_programs(tmp_path):
    """The program gets the input."""
    program = script(tmp_path, STRONG + "print(input().upper())\n")
    done = subprocess.run(
        [*COMMAND, "doctor", "--", *program],
        env=environment(), input="hello\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "HELLO\n")
    assert "Loops are stopped here" in done.stderr


def test_a_program_without_the_guard(tmp_path):
    """A Python that ignores its environment does not load the guard: a problem."""
    found, done = examined(tmp_path, sys.executable, "-I", "-c", "print('on its own')")
    assert (done.returncode, codes(found), done.stdout) == (1, {"not-loaded"}, "on its own\n")


def test_opentelemetry_that_does_not_start(tmp_path):
    """With a wrong limit no instrumentation is loaded: the finding names the setting."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more={"OTEL_ATTRIBUTE_COUNT_LIMIT": "many"})
    assert (done.returncode, codes(found)) == (1, {"start-failed"})
    assert "OTEL_ATTRIBUTE_COUNT_LIMIT" in found["findings"][0]["text"]


@pytest.mark.parametrize("flags", [("--traces_exporter", "otpl"), ("--service_name", "x", "--traces_exporter=otpl")])
def test_opentelemetry_that_does_not_start_because_of_a_flag(tmp_path, flags):
    """The doctor tries the start with the flags of the program's own ``opentelemetry-instrument``."""
    launcher = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    found, done = examined(tmp_path, launcher, *flags, *script(tmp_path, STRONG))
    assert (done.returncode, codes(found)) == (1, {"start-failed"})
    assert "'otpl' not found" in found["findings"][0]["text"]


def test_a_wrong_name_that_is_left_out(tmp_path):
    """The guard is on, and a warning has the wrong name and the installed ones."""
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more={"OTEL_TRACES_EXPORTER": "otpl"})
    assert (done.returncode, found["processes"][0]["on"]) == (0, True)
    (one,) = [one for one in found["findings"] if one["code"] == "wrong-name"]
    assert "OTEL_TRACES_EXPORTER: there is no 'otpl', only console, otlp," in one["text"]


def test_a_program_that_calls_nothing(tmp_path):
    """A program that calls no tool proves nothing: there is no verdict, in text and JSON, and the status is 1."""
    found, done = examined(tmp_path, sys.executable, "-c", "pass")
    assert (done.returncode, "no-calls" in codes(found)) == (1, True)
    assert (found["ok"], found["verdict"]) == (False, "unknown")
    done = command("doctor", "--", sys.executable, "-c", "pass")
    assert done.returncode == 1
    assert "No tool call was seen, so nothing is known" in done.stderr
    assert "Loops are stopped" not in done.stderr


def test_a_program_under_a_policy_that_observes(tmp_path):
    """The doctor does not promise that loops are stopped where they are only reported."""
    more = {"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"}
    done = command("doctor", "--", *script(tmp_path, STRONG), more=more)
    assert done.returncode == 0
    assert "Loops are reported here, and not stopped." in done.stderr
    assert "Loops are stopped" not in done.stderr


@pytest.mark.parametrize(
    ("policy", "declared", "names"),
    [
        ("tools.read_file.action = 'off'", "", "tools.read_file (off)"),
        ("modes.generic_repeat.action = 'nudge'", "", "modes.generic_repeat (nudge)"),
        ("tools.'read*'.modes.cycle.block = 0", "", 'tools."read*".modes.cycle (block = 0)'),
        ("", "(action='observe')", "tools.read_file (observe)"),
    ],
)
def test_the_verdict_names_tools_and_modes_that_are_exempt(tmp_path, policy, declared, names):
    """The doctor does not promise that loops are stopped where the policy lets some run on."""
    (tmp_path / "loop.toml").write_text(policy)
    text = STRONG.replace("@loopguard.tool", f"@loopguard.tool{declared}")
    more = {"OTEL_PYTHON_LOOPGUARD_CONFIG": str(tmp_path / "loop.toml")}
    done = command("doctor", "--", *script(tmp_path, text), more=more)
    assert (
        f"warning: The policy refuses no call of these tools, and none for these modes: {names}. [exempt]"
        in done.stderr
    )
    assert "Repeats are refused here, but not every loop is stopped: see [exempt]." in done.stderr
    assert "Loops are stopped" not in done.stderr


def test_without_a_program_none_is_promised_to_be_guarded():
    """The self-test's verdict is about the self-test, and names the command that examines a program."""
    done = command("doctor")
    assert done.returncode == 0
    assert "refused the loops of the self-test" in done.stdout
    assert "No program of yours was seen." in done.stdout
    assert "Loops are stopped" not in done.stdout


# --- frameworks and clients without a patch ------------------------------------------------------------------------


def distribution(folder, name, module):
    """Install an empty distribution into a folder."""
    info = folder / f"{name.replace('-', '_')}-1.26.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.26.0\n")
    (folder / f"{module}.py").touch()


def test_installed_frameworks_without_a_patch_are_named(tmp_path):
    """The doctor names them, with what may judge their calls, and joins the clients."""
    pytest.importorskip("openai")
    for name, module in (("swarms", "swarms"), ("groq", "groq")):
        distribution(tmp_path, name, module)
    found, done = selftest({"PYTHONPATH": str(tmp_path)})
    texts = {one["code"]: one["text"] for one in found["findings"]}
    assert texts["only-in-requests"].startswith("swarms 1.26.0 is installed; its tools are not guarded. Its calls")
    assert "openai" in texts["only-in-requests"]
    assert "groq 1.26.0" in texts["client-not-read"]
    assert "no-framework" not in texts
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "level"), [("pass", TELLS), ("import groq", WARNS), ("import groq\n" + STRONG, TELLS)]
)
def test_a_client_that_is_not_read_is_a_warning_where_no_call_was_seen(tmp_path, text, level):
    """Only a program that uses it, and shows no call, has something to do."""
    distribution(tmp_path, "groq", "groq")
    found, _ = examined(tmp_path, *script(tmp_path, text))
    (one,) = [one for one in found["findings"] if one["code"] == "client-not-read"]
    assert (one["level"], "groq 1.26.0" in one["text"], "@otel_loopguard.tool" in one["remedy"]) == (level, True, True)


def test_a_program_whose_calls_were_seen_hears_only_of_frameworks_that_it_imports(tmp_path):
    """What else is installed is no concern of that program, unless none of its calls was seen."""
    distribution(tmp_path, "swarms", "swarms")
    found, _ = examined(tmp_path, *script(tmp_path, STRONG))
    assert codes(found).isdisjoint({"not-guarded", "only-in-requests", "guarded-by-hand"})
    found, _ = examined(tmp_path, *script(tmp_path, "import swarms\n" + STRONG))
    assert "guarded-by-hand" in codes(found)
    found, done = examined(tmp_path, *script(tmp_path, "pass"))
    assert "no-calls" in codes(found)
    assert codes(found) & {"not-guarded", "only-in-requests"}
    assert done.returncode == 1


def test_a_framework_whose_tools_are_guarded_by_hand(tmp_path):
    """Who has followed the remedy reads a note with the number of these calls, and no warning any more."""
    distribution(tmp_path, "swarms", "swarms")
    found, done = examined(tmp_path, *script(tmp_path, "import swarms\n" + STRONG))
    (note,) = [one for one in found["findings"] if "swarms" in one["text"]]
    assert (note["code"], note["level"], done.returncode) == ("guarded-by-hand", "tells", 0)
    assert note["text"].endswith("only those with @otel_loopguard.tool are guarded (4 such calls).")


@pytest.mark.parametrize("caught", [True, False])
def test_a_program_that_catches_the_end_of_its_run(tmp_path, caught):
    """A framework that makes a result of each error asks the model again: the run has no end, and a finding says so."""
    step = "        try:\n            read_file('a')\n        except loopguard.ToolLoopError:\n            "
    text = LOOP + "with loopguard.turn():\n    for _ in range(30):\n" + step + ("pass\n" if caught else "break\n")
    found, done = examined(tmp_path, *script(tmp_path, text))
    assert (done.returncode, found["verdict"]) == (0, "partly" if caught else "stopped")
    assert [one["text"] for one in found["findings"] if one["code"] == "abort-caught"] == (
        ["The program catches the RunStopped that ends a run, and goes on (1 turn)."] if caught else []
    )


# --- telemetry -----------------------------------------------------------------------------------------------------

_SERVICE = {"OTEL_SERVICE_NAME": "shop"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"OTEL_TRACES_EXPORTER": "none"}, {"exporter-none"}),
        ({"OTEL_TRACES_EXPORTER": "otpl"}, {"wrong-name", "no-exporter"}),
        ({"OTEL_TRACES_EXPORTER": "console", **_SERVICE}, {"console-exporter"}),
        ({"OTEL_TRACES_EXPORTER": "console"}, {"console-exporter", "no-service-name"}),
    ],
)
def test_exporters_and_the_service_name(tmp_path, settings, expected):
    """The console, a wrong name, and none by choice each have a finding; a name is missed only where spans leave."""
    found, _ = examined(tmp_path, *script(tmp_path, STRONG), more=settings)
    assert codes(found) == expected
    assert {one["level"] for one in found["findings"] if one["code"] == "exporter-none"} <= {"tells"}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("endpoint", ["notaurl", "http://127.0.0.1:99999", "http://:4318"])
def test_an_endpoint_that_is_no_address(endpoint, protocol):
    """It is named as such, for both protocols, and the doctor does not fail."""
    exporters = [{"signal": "traces", "endpoint": endpoint, "grpc": protocol == "grpc"}]
    assert [one.code for one in of_exporters(exporters)] == ["endpoint-malformed"]


@pytest.mark.parametrize("signal", ["METRICS", "LOGS"])
def test_a_collector_that_is_missing_for_other_signals(tmp_path, signal):
    """Spans are not exported, and the finding is there: the program waits for its metrics or logs as it ends."""
    none = dict.fromkeys(("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"), "none")
    more = {f"OTEL_{signal}_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    port = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more={**none, **more, **port, **_SERVICE})
    assert (done.returncode, codes(found)) == (0, {"exporter-none", "endpoint-silent"})


def test_a_server_has_one_finding_for_all_signals():
    """Three exporters to a server that does not answer are one mistake."""
    exporters = [
        {"signal": signal, "endpoint": f"http://127.0.0.1:1/v1/{signal}", "grpc": False}
        for signal in ("traces", "metrics", "logs")
    ]
    assert [one.code for one in of_exporters(exporters)] == ["endpoint-silent"]


def test_a_malformed_endpoint_of_a_program(tmp_path):
    """The program runs, and the doctor ends with a report."""
    more = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:99999", **_SERVICE}
    found, done = examined(tmp_path, *script(tmp_path, STRONG), more=more)
    assert (done.returncode, codes(found)) == (0, {"endpoint-malformed"})


def test_a_limit_without_effect(tmp_path):
    """A limit that another one comes before has a finding with its line: a program does not check this as it starts."""
    (tmp_path / "loop.toml").write_text("[tools.read_file.modes.generic_repeat]\nblock = 10\n")
    found, _ = examined(
        tmp_path, *script(tmp_path, STRONG), more={"OTEL_PYTHON_LOOPGUARD_CONFIG": str(tmp_path / "loop.toml")}
    )
    (text,) = [one["text"] for one in found["findings"] if one["code"] == "limit-without-effect"]
    assert "loop.toml, line 2: tools.read_file.modes.generic_repeat.block = 10: has no effect above 8: " in text
    assert "no_novelty refuses the 9th" in text


def test_a_policy_given_in_code(tmp_path):
    """The report has the policy in force, even if code set it after the start."""
    text = "import otel_loopguard as l\nl.instrument(l.Policy(action=l.Action.OBSERVE))\n" + STRONG
    found, _ = examined(tmp_path, *script(tmp_path, text))
    (one,) = [one for one in found["findings"] if one["code"] == "only-observing"]
    assert "given in code" in one["text"]


def test_a_patch_that_somebody_replaced(tmp_path):
    """A place that no longer has our patch is a problem, and is named."""
    pytest.importorskip("langchain_core")
    text = "from langchain_core.tools import BaseTool\nBaseTool.run = lambda self, *a, **k: None\n"
    found, done = examined(tmp_path, *script(tmp_path, text))
    (one,) = [one for one in found["findings"] if one["code"] == "patch-lost"]
    assert "langchain_core.tools.base:BaseTool.run" in one["text"]
    assert done.returncode == 1


def test_a_version_without_the_places(tmp_path):
    """A framework in which nothing can be patched is a problem."""
    pytest.importorskip("langchain_core")
    text = "from langchain_core.tools import BaseTool\ndel BaseTool.run, BaseTool.arun\n"
    found, done = examined(tmp_path, *script(tmp_path, text))
    assert "targets-missing" in codes(found)
    assert done.returncode == 1


def test_another_guard_in_use(tmp_path):
    """A limiter of the framework is reported if the program creates one, and not if it is only installed."""
    pytest.importorskip("langchain.agents.middleware")
    text = "from langchain.agents.middleware import ToolCallLimitMiddleware\n"
    found, _ = examined(tmp_path, *script(tmp_path, text))
    assert "other-guard" not in codes(found)
    found, _ = examined(tmp_path, *script(tmp_path, text + "ToolCallLimitMiddleware(run_limit=3)\n"))
    assert "other-guard" in codes(found)


def test_an_agent_with_a_text_protocol_is_named(tmp_path):
    """Its loop cannot be read in requests; a program that only imports it does not use it."""
    package = tmp_path / "dspy" / "predict"
    package.mkdir(parents=True)
    (tmp_path / "dspy" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "code_act.py").write_text("class CodeAct:\n    def __init__(self, tools):\n        self.tools = tools\n")
    text = STRONG + "from dspy.predict.code_act import CodeAct\n"
    found, _ = examined(tmp_path, *script(tmp_path, text))
    assert "text-protocol" not in codes(found)
    found, _ = examined(tmp_path, *script(tmp_path, text + "assert CodeAct([read_file]).tools\n"))
    assert [one["text"] for one in found["findings"] if one["code"] == "text-protocol"] == [
        "CodeAct of DSPy asks for tool calls in plain text: its loop cannot be read in the requests to the model."
    ]


def test_a_provider_of_the_programs_own(tmp_path):
    """Calls that are known only from another instrumentation's spans are reported as spans-only."""
    text = (
        "from opentelemetry import trace\n"
        "with trace.get_tracer('other').start_as_current_span('execute_tool x') as span:\n"
        "    span.set_attribute('gen_ai.operation.name', 'execute_tool')\n"
        "    span.set_attribute('gen_ai.tool.name', 'x')\n"
    )
    found, done = examined(tmp_path, *script(tmp_path, text))
    assert (done.returncode, "spans-only" in codes(found)) == (1, True)


def test_workers_of_a_program_count(tmp_path):
    """A forked worker that ends without clean-up reports its finished turns."""
    text = LOOP + (
        "import os\n"
        "def work():\n"
        "    with loopguard.turn():\n"
        "        for _ in range(4):\n"
        "            read_file('a')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    work()\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    found, _ = examined(tmp_path, *script(tmp_path, text))
    assert sum(call["count"] for process in found["processes"] for call in process["calls"]) == 4
    assert {"not-ended"} <= codes(found)
    assert "no-calls" not in codes(found)


WORKERS = (
    LOOP
    + """
import multiprocessing, os, signal, sys
def work(way):
    for _ in range(3):
        with loopguard.turn():
            for _ in range(5):
                read_file("a")
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    for way in ("ends", "killed"):
        worker = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(way,))
        worker.start()
        worker.join()
"""
)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_count_every_ended_turn(start, tmp_path):
    """However they are started and end. Processes that multiprocessing starts for itself are left out."""
    found, _ = examined(tmp_path, *script(tmp_path, WORKERS), start)
    counts = [sum(call["count"] for call in process["calls"]) for process in found["processes"]]
    assert sorted(counts) == [0, 15, 15]
    assert [one["code"] for one in found["findings"]].count("not-ended") == 1, found


def test_a_server_is_stopped_with_the_doctor(tmp_path):
    """SIGTERM to the doctor reaches the program, and the report covers the run until then."""
    text = STRONG + "import time\nprint('up', flush=True)\ntime.sleep(60)\n"
    output = tmp_path / "found.json"
    with subprocess.Popen(
        [*COMMAND, "doctor", "--json", "--output", str(output), "--", *script(tmp_path, text)],
        env=environment(), stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
    found = json.loads(output.read_text("utf-8"))
    assert found["program_status"] == -signal.SIGTERM
    assert sum(call["count"] for call in found["processes"][0]["calls"]) == 4


def test_a_program_with_workers_is_stopped_with_ctrl_c(tmp_path):
    """Ctrl-C reaches the doctor, the program and its workers at once: the doctor waits for them, and reports."""
    text = STRONG + (
        "import multiprocessing, time\n"
        "if __name__ == '__main__':\n"
        "    for _ in range(2):\n"
        "        multiprocessing.get_context('spawn').Process(target=time.sleep, args=(60,)).start()\n"
        "    print('up', flush=True)\n"
        "    time.sleep(60)\n"
    )
    output = tmp_path / "found.json"
    with subprocess.Popen(
        [*COMMAND, "doctor", "--json", "--output", str(output), "--", *script(tmp_path, text)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    found = json.loads(output.read_text("utf-8"))
    assert (process.returncode, found["verdict"]) == (130, "stopped"), err
    assert found["program_status"] == -signal.SIGINT
    assert "program-failed" not in codes(found)  # it was stopped
    assert {call["outcome"]: call["count"] for call in found["processes"][0]["calls"]}["executed"] >= 1


def test_a_process_that_outlives_the_program_does_not_cost_the_report(tmp_path):
    """A helper still writes into the doctor's folder while that is removed: the findings are there all the same."""
    helper = (
        "import itertools, os, pathlib, time\n"
        "folder, end = pathlib.Path(os.environ['_OTEL_LOOPGUARD_DOCTOR']), time.monotonic() + 6\n"
        "try:\n"
        "    for number in itertools.count():\n"
        "        (folder / f'{number}.part').touch()\n"
        "        time.sleep(0.0003)\n"
        "        if time.monotonic() > end:\n"
        "            break\n"
        "except FileNotFoundError:\n"
        "    pass\n"
    )
    text = STRONG + (
        "import subprocess, sys\n"
        f"helper, quiet = [sys.executable, '-I', '-c', {helper!r}], subprocess.DEVNULL\n"
        "for _ in range(3):\n"
        "    subprocess.Popen(helper, stdout=quiet, stderr=quiet, start_new_session=True)\n"
        "import os, pathlib, time\n"
        "while len(list(pathlib.Path(os.environ['_OTEL_LOOPGUARD_DOCTOR']).glob('*.part'))) < 300:\n"
        "    time.sleep(0.01)\n"
    )
    found, done = examined(tmp_path, *script(tmp_path, text), more={"TMPDIR": str(tmp_path)})
    assert (done.returncode, found["verdict"]) == (0, "stopped")
    assert "Directory not empty" not in done.stderr


# --- wrong use, and the documentation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program"], "there is no such program"),
        (["lg.py"], "lg.py: there is no such file"),
        (["--"], "no program after"),
        (["--output", "/nowhere/at/all"], "cannot be written"),
        (["--jsn"], "jsn"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(arguments, said):
    """Wrong use is one line with status 2, and nothing is started."""
    done = command("doctor", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_the_documentation_has_each_finding():
    """docs/doctor.md has a section for every finding, with its level and an explanation, and no other."""
    words = {"problem": BREAKS, "leaves the verdict open": OPEN, "warning": WARNS, "note": TELLS}
    text = (ROOT / "docs" / "doctor.md").read_text("utf-8")
    sections = re.findall(r"^### (\S+)\n\n\*(?:It|A) (.+?)\.\* \S", text, re.M)
    assert {code: words[level] for code, level in sections} == {code: kind.level for code, kind in KINDS.items()}
    assert finding("not-loaded").page.endswith("/docs/doctor.md#not-loaded")


def test_a_finding_is_a_few_words():
    """Text and remedy are two sentences at most; the rest is in the section."""
    ends = {code: [len(re.findall(r"[.:?] [A-Z]", part)) for part in kind[1:]] for code, kind in KINDS.items()}
    assert [code for code, counts in ends.items() if max(counts) > 1] == []


def test_a_loop_that_ran_in_the_self_test_is_a_problem():
    """Under a policy that refuses; one that observes lets it run."""
    report = {"tested": {"by-hand": "ran"}, "action": "block"}
    assert [one.code for one in _of_selftest(report)] == ["loop-ran"]
    assert list(_of_selftest({**report, "action": "observe"})) == []
