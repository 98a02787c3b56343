"""Telemetry settings from the environment."""

from __future__ import annotations

import pytest

from otel_loopguard.telemetry.settings import Settings


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        ({"EVENTS": "log"}, Settings(span_events=False, log_events=True)),
        ({"EVENTS": "BOTH"}, Settings(log_events=True)),
        ({"EVENTS": "span"}, Settings(log_events=False)),
        ({"EVENTS": "bth"}, Settings(log_events=False)),
        ({"CONVERSATION_ID": "hash"}, Settings(conversation_id="hash")),
        ({"ENFORCE_WITHOUT_TURN": " True "}, Settings(enforce_without_turn=True)),
        ({"GENAI_METRICS": "off"}, Settings(genai_metrics=False)),
        ({"SUMMARY": "off"}, Settings(summary=False)),
        ({"SUMMARY": "of"}, Settings()),
        ({"EVENTS": "", "CONVERSATION_ID": ""}, Settings()),
    ],
)
def test_settings_from_the_environment(environ: dict[str, str], expected: Settings) -> None:
    """Settings are read in any case and with blanks around them; an empty one has its default."""
    assert Settings.from_environment({f"OTEL_PYTHON_LOOPGUARD_{k}": v for k, v in environ.items()}) == expected


def test_a_misspelt_setting_hides_rather_than_shows(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt value is logged with the variable and the allowed values, and the id is hidden."""
    settings = Settings.from_environment({"OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID": "hsah"})
    assert settings.conversation_id == "off"
    assert (
        "OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID = 'hsah': must be one of raw, hash, off; going on with off."
        in caplog.text
    )
