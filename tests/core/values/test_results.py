"""Pending results and transient errors: the quick look never decides otherwise than the patterns do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.core.values import results

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
    "é",
    "_",
    "-",
    " ",
    "\n",
    "5",
)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from(["", " ", "-", "x", "\n"]))
def test_the_quick_look_agrees_with_the_patterns(pieces, glue):
    """The quick look gives the answer of the whole pattern for every mix of the relevant words."""
    text = glue.join(pieces)
    for said in (text, text.upper()):
        data = said.encode()
        assert results.is_pending(said, data) == (results._PENDING.search(data.lower()) is not None)
        assert results.is_transient(said) == (TRANSIENT.search(said) is not None)


@pytest.mark.parametrize("text", ["rate limit exceeded", "HTTP 503", "connection refused", "Request timed out"])
def test_faults_that_pass(text):
    """Faults that pass by themselves are transient."""
    assert results.is_transient(text)


@pytest.mark.parametrize("text", ["Please try again", "no such file", "line 5032 is wrong", "the limit is 3"])
def test_faults_that_stay(text):
    """Faults that stay are not transient."""
    assert not results.is_transient(text)
