"""The pytest plugin guards a test that asks for it, fails one in which an agent loops, and leaves all others alone."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

AGENT = """
import otel_loopguard

def agent(times):
    with otel_loopguard.turn():
        for _ in range(times):
            otel_loopguard.call("search_orders", {"customer": "ada"}, lambda customer: "one order")
"""
FAIL_ON_BLOCK = "--loopguard-fail-on=block"


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder of tests of an agent that makes one call again and again; pytest runs in a process of its own."""
    for name in ("PYTEST_ADDOPTS", "OTEL_PYTHON_LOOPGUARD_ACTION", "CI"):  # in CI pytest writes each message twice
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins of the other packages that are installed
    pytester.makepyfile(agent=AGENT)

    def run(test, *arguments):
        pytester.makepyfile(test_agent="import pytest\nfrom agent import agent\n\n" + test)
        return pytester.runpytest_subprocess("-p", "loopguard", *arguments)

    return run


def test_the_fixture_records_what_the_guard_did(project):
    """A test asks for ``loopguard`` and asserts on its calls and trips."""
    result = project(
        """
def test_loop(loopguard):
    agent(3)
    assert loopguard.outcomes == ["executed", "nudged", "blocked"]
    assert [trip.action for trip in loopguard.trips] == ["nudge", "block"]
"""
    )
    result.assert_outcomes(passed=1)


def test_a_test_in_which_a_call_is_refused_fails_with_the_loop_in_its_message(project):
    """The message names mode, tool and counts; there is no traceback of the plugin. A nudge alone is no failure."""
    result = project("def test_loop(): agent(5)\ndef test_nudge(): agent(2)\n", FAIL_ON_BLOCK)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "An agent repeated itself (--loopguard-fail-on=block):",
            "  generic_repeat of search_orders: block 3 times",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin*")


def test_the_message_has_the_arguments_of_the_calls(project):
    """They are test data. Equal calls are one line, and a call that was only nudged has none."""
    result = project("def test_loop(): agent(5)\n", FAIL_ON_BLOCK)
    assert result.outlines.count('  search_orders(customer="ada"): generic_repeat, block, 3 times') == 1
    result.stdout.no_fnmatch_line("*nudge,*")


def test_a_loop_over_a_client_is_shown_with_its_arguments(project):
    """Its calls had run when the guard read them, so the model was only told; the rules wanted a refusal."""
    pytest.importorskip("openai")
    text = """
from tests.models.loops import loops_of, run
from tests.models.scripts import Looping, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

def test_loop():
    with Server(Looping(call("search", query="Ada"), rounds=4, answer="Ada is there.")).running() as server:
        run(loops_of("openai")["openai.chat"], server.url, "task-1: who is it?", Toolbox())
"""
    result = project(text, FAIL_ON_BLOCK)
    assert '  search(query="Ada"): generic_repeat, block, had run, 2 times' in result.outlines
    result.stdout.fnmatch_lines(["  generic_repeat of search: block (only nudge) 2 times"])


def test_an_option_hides_the_arguments(project):
    """The message is the same but for them."""
    result = project("def test_loop(): agent(5)\n", FAIL_ON_BLOCK, "--loopguard-hide-arguments")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  generic_repeat of search_orders: block 3 times"])
    result.stdout.no_fnmatch_line("*ada*")


def test_many_calls_are_cut(project):
    """Ten calls have a line, and the number of the others is told."""
    many = """
def test_loops():
    for customer in range(12):
        with otel_loopguard.turn():
            for _ in range(3):
                otel_loopguard.call("search_orders", {"customer": customer}, lambda customer: "one order")
"""
    result = project("import otel_loopguard\n" + many, FAIL_ON_BLOCK)
    assert sum(line.startswith("  search_orders(customer=") for line in result.outlines) == 10
    result.stdout.fnmatch_lines(["  and 2 more calls"])


def test_an_ended_run_has_no_frame_of_the_guard_in_its_traceback(project):
    """The traceback of ``ToolLoopError`` ends in the line of the program that made the call."""
    result = project("def test_loop(loopguard): agent(50)\n")
    result.stdout.fnmatch_lines(["*agent.py:*: ToolLoopError"])
    result.stdout.no_fnmatch_line("*def __exit__*")
    result.stdout.no_fnmatch_line("*otel_loopguard/*.py:*: *")


def test_a_weaker_action_fails_more_tests(project):
    """With ``nudge`` the first repeat fails the test."""
    result = project("def test_nudge(): agent(2)\n", "--loopguard-fail-on=nudge")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  generic_repeat of search_orders: nudge once"])


def test_a_policy_that_only_observes_hides_no_loop(project, monkeypatch):
    """A call that would have been refused fails the test also where the policy refuses nothing."""
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_ACTION", "observe")
    result = project("def test_loop(): agent(5)\n", FAIL_ON_BLOCK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  generic_repeat of search_orders: block (only observe) 3 times"])


def test_an_agent_that_runs_in_a_fixture_is_guarded_too(project):
    """The guard is on before the fixtures of the test."""
    result = project("@pytest.fixture\ndef answer(): return agent(5)\n\ndef test_loop(answer): pass\n", FAIL_ON_BLOCK)
    result.assert_outcomes(failed=1)


def test_a_marker_decides_for_its_test(project):
    """``fail_on=None`` allows the loop of one test; an action guards one test without the option."""
    allowed = "@pytest.mark.loopguard(fail_on=None)\ndef test_loop(): agent(5)\n"
    project(allowed, FAIL_ON_BLOCK).assert_outcomes(passed=1)
    project("@pytest.mark.loopguard(fail_on='block')\ndef test_loop(): agent(5)\n").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("fail_on='blok'", "loopguard(fail_on='blok'): did you mean block? it must be None or one of nudge, reuse, *"),
        ("fail_on='xyz'", "loopguard(fail_on='xyz'): it must be None or one of nudge, reuse, block, conclude, abort"),
        ("failon='nudge'", "loopguard(failon='nudge'): there is no failon; write fail_on='nudge'"),
        ("'nudge'", "loopguard('nudge'): write fail_on='nudge'"),
    ],
)
def test_a_marker_with_a_mistake_ends_the_run_with_one_line(project, marker, told):
    """A misspelt marker is never a test that cannot fail. There is no traceback."""
    result = project(f"@pytest.mark.loopguard({marker})\ndef test_loop(): pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: test_agent.py::test_loop: {told.replace('[', '[[]')}"])
    result.stdout.no_fnmatch_line("*pytest_plugin*")


def test_a_gate_without_judgement_fails(project, monkeypatch):
    """Under the action ``off`` no loop can be found, so a test that is to fail at one must not pass."""
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_ACTION", "off")
    result = project("def test_loop(): agent(5)\n", FAIL_ON_BLOCK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["--loopguard-fail-on=block cannot find a loop: the action of the policy is off.*"])


def test_a_test_that_fails_by_itself_keeps_its_own_failure(project):
    """The loop does not hide the assertion."""
    result = project("def test_loop():\n    agent(5)\n    assert 'own' == 'failure'\n", FAIL_ON_BLOCK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError*"])
    result.stdout.no_fnmatch_line("*repeated itself*")


def test_a_test_case_of_unittest_is_guarded(project):
    """Methods of ``unittest.TestCase`` are guarded as functions are."""
    result = project(
        """
import unittest

class TestAgent(unittest.TestCase):
    def test_loop(self): agent(5)
""",
        FAIL_ON_BLOCK,
    )
    result.assert_outcomes(failed=1)


def test_nothing_is_imported_unless_it_is_used(project):
    """A run that uses neither fixture nor option imports neither the guard nor OpenTelemetry."""
    result = project(
        """
def test_unguarded(request):
    import sys

    assert request.config.pluginmanager.has_plugin("loopguard")
    used = {"opentelemetry", "wrapt", "otel_loopguard.engine", "otel_loopguard.testing", "otel_loopguard.semconv"}
    assert sorted(used & sys.modules.keys()) == []
"""
    )
    result.assert_outcomes(passed=1)
