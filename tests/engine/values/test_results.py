"""Pending results and transient errors: the quick look never decides otherwise than the patterns do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.values import pending, results
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.vocabulary import Outcome

PRINTS = Fingerprinter(b"key")
PENDING = Contracts(Policy()).pending
PATTERNS = (results._IS_STATUS, results._IS_TIMEOUT, results._IS_UNREACHED, results._IS_BUSY)
TRANSIENT = re.compile("|".join(one.pattern for one in PATTERNS), re.IGNORECASE)

PIECES = (
    "pending",
    "queued",
    "running",
    "in progress",
    "in_progress",
    "inprogress",
    "progress",
    "not ready",
    "not yet ready",
    "not_yet-ready",
    "ready",
    "already",
    "12 %",
    "7%",
    "120%",
    "1.5 %",
    ".5%",
    "spending",
    "xrunning",
    "in",
    "not",
    "yet",
    "HTTP/1.1 503",
    "status_code: 429",
    "error 500",
    "code=(512",
    "429 too many",
    "503: service unavailable",
    "429",
    "599",
    "time out",
    "timed-out",
    "timeout",
    "lifetime",
    "about",
    "connection was reset",
    "connection refused",
    "ECONNRESET",
    "ETIMEDOUT",
    "overloaded",
    "rate limit",
    "ratelimit",
    "unlimited rate",
    "too many requests",
    "service unavailable",
    "TimeoutError",
    "TimeoutException",
    "ReadTimeoutx",
    "service is temporarily unavailable",
    "done: false",
    'completed": no',
    "complete",
    "finished=false",
    "no",
    "false",
    "é",
    "_",
    "-",
    " ",
    "\n",
    "5",
)


def facts(result=None, *, error=None, is_error=None, words=PENDING):
    """Return the facts about one outcome."""
    return results.outcome_facts(Outcome(result, error, is_error), {}, PRINTS, words)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from(["", " ", "-", "x", "\n"]))
def test_the_quick_look_agrees_with_the_patterns(pieces, glue):
    """The quick look gives the answer of the whole pattern for every mix of the relevant words."""
    text = glue.join(pieces)
    for said in (text, text.upper()):
        lower = said.lower()
        patterns = (PENDING._pending._phrases, pending._SHARE, pending._PART, pending._DENIED)
        assert PENDING.are_in(lower) == any(pattern.search(lower) for pattern in patterns)
        assert results.is_transient(said, lower) == (TRANSIENT.search(said) is not None)


@pytest.mark.parametrize(
    "text",
    [
        "rate limit exceeded",
        "HTTP 503",
        "connection refused",
        "Request timed out",
        "503",
        "429.\n",
        "curl: (7) Failed to connect to localhost port 3000",
        "deadlock detected",
        "database is locked",
        "could not serialize access due to concurrent update",
        "Retry after 30 s",
        "temporarily out of order",
    ],
)
def test_faults_that_pass(text):
    """Faults that pass by themselves are transient."""
    assert facts(error=text).transient


@pytest.mark.parametrize(
    "text", ["Please try again", "no such file", "line 5032 is wrong", "the limit is 3", "5030", "404"]
)
def test_faults_that_stay(text):
    """Faults that stay are not transient."""
    assert not facts(error=text).transient


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Too Many Requests, retry after 60s", 60), ("Retry-After: 2", 2), ('{"retry_after": 1.5}', 1.5),
        ("try again in 3 minutes", 180), ("Try again in 250 ms", 250), ("try again later", 0), ("retry 3 of 5", 0),
    ],
)  # fmt: skip
def test_an_error_and_a_short_result_may_name_the_seconds_to_wait(text, seconds):
    """A long result is content."""
    assert facts(error=text).retry_after == facts(text).retry_after == seconds
    assert facts(f"{text} {'and more ' * 40}").retry_after == 0


def test_a_result_that_tells_of_a_refused_connection_waits_for_a_server():
    """An error of the tool itself is only a fault that passes."""
    text = "curl: (7) Failed to connect to localhost port 3000: Connection refused"
    assert facts(text).pending
    assert not facts(error=text).pending


def test_a_short_result_may_report_a_fault_that_passes():
    """A service that reports its faults as results is given time, too; a number alone is an answer."""
    assert facts("HTTP 503: service unavailable").transient
    assert not facts("503").transient
    assert not facts("HTTP 503" + " and more" * 40).transient


def test_a_result_of_up_to_80_bytes_is_brief():
    """The size is in bytes, of results and of errors."""
    assert facts("x" * 80).brief
    assert not facts("é" * 41).brief
    assert facts(error="x" * 80).brief


@pytest.mark.parametrize(
    "text",
    [
        "Process exited with code 1",
        "exit status 2",
        "Error: Command failed with exit code 1",
        "Command 'npm test' returned non-zero exit status 127.",
    ],
)
def test_a_bare_exit_code_has_no_shape(text):
    """An exit code tells nothing about the fault, so two of them need not be the same error."""
    assert facts(error=text).shape == 0
    assert facts(error=f"{text}: no such file").shape != 0


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such file",
        "ERROR no such file",
        "  fatal: not a git repository",
        "Exception in thread main",
        "Traceback (most recent call last):",
        "Failed to open the file",
        "Unknown tool: reed_file",
        "No such function: reed_file",
        "Tool 'reed_file' was not found",
        "Failure: timeout",
        "404 Not Found",
        "503: Service Unavailable",
        '{"error": "no such file"}',
        '{ "error" : {"code": 3}}',
        '["Error: no such file"]',
        '{"isError": true}',
        '{"result": "{\\"isError\\": true}"}',
        "isError=True content=[]",
    ],
)
def test_a_text_may_be_an_error_where_the_framework_gives_no_flag(text):
    """The beginning of a text, or MCP's flag in it, makes it an error. A framework that says otherwise is believed."""
    assert facts(text).is_error
    assert not facts(text, is_error=False).is_error


@pytest.mark.parametrize(
    "text",
    [
        "Errors: 0",
        "failure rate 3 %",
        "404 not found yet",
        "4040 Not",
        '{"error": null}',
        '{"error":false, "items": []}',
        '{"error": ""}',
        '{"isError": false}',
        "no error",
        "failed tests: 3",
        "",
    ],
)
def test_other_texts_are_no_errors(text):
    """A word within a text, or an error that is null, is no error; with the framework's flag it is one."""
    assert not facts(text).is_error
    assert facts(text, is_error=True).is_error
