"""No argument, result, query or message of the user leaves the process: every exported byte is searched."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from otel_loopguard import semconv
from tests.instrumentation.processes import ROOT, start

from .otlp import attributes, receiver

pytest.importorskip("langgraph")

APP = Path(__file__).with_name("leaky_app.py")
SETTINGS = [
    {"EVENTS": "span", "CONVERSATION_ID": "hash"},
    {"EVENTS": "both", "CONVERSATION_ID": "off"},
    {"EVENTS": "log", "CONVERSATION_ID": "hash", "ACTION": "observe"},
    {"EVENTS": "both", "CONVERSATION_ID": "a typing error", "ACTION": "nudge"},
    {"EVENTS": "both", "CONVERSATION_ID": "hash", "HASH_KEY": "SECRETKEY"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings.values()))
def test_no_secret_leaves_the_process(settings: dict[str, str]) -> None:
    """Traces, metrics and logs (the program's own log included) hold none of the planted words."""
    with receiver() as received:
        environment = {
            **received.environment,
            **{f"OTEL_PYTHON_LOOPGUARD_{name}": value for name, value in settings.items()},
            "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
            "PYTHONPATH": str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", ""),
        }
        ended = start(APP, environment=environment)
        assert "done" in ended.stdout, ended.stderr
        exported = received.all_bytes()
        assert set(re.findall(rb"SECRET\w*", exported)) == set()
        assert received.spans
        assert "internal fault" not in ended.stderr
        assert received.points(semconv.METRIC_INTERNAL_ERRORS) == []
        if settings["EVENTS"] != "span" and settings.get("ACTION") != "observe":
            assert received.log_records


def test_a_conversation_id_is_shown_unless_it_is_to_be_hidden() -> None:
    """By default the conversation id is on the span, because people search for it."""
    with receiver() as received:
        environment = {**received.environment, "PYTHONPATH": str(ROOT)}
        start(APP, environment=environment)
        shown = {attributes(span).get(semconv.CONVERSATION_ID) for span in received.spans} - {None}
        assert shown == {"thread", "SECRETCONVERSATION"}
        assert b"SECRET" not in received.all_bytes().replace(b"SECRETCONVERSATION", b"")
