"""The settings of turns and telemetry, from environment variables. The rules of detection are in the policy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.environment_variables import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger("otel_loopguard")


class Settings(NamedTuple):
    """Settings of turns and telemetry."""

    span_events: bool = True
    """Write each trip as an event on the span of its call."""
    log_events: bool | None = None
    """Write each trip as a log record. None: if a logger provider is set."""
    conversation_id: str = "raw"
    """How spans show a conversation's id: ``raw``, ``hash``, or ``off`` for not at all."""
    enforce_without_turn: bool = False
    """Refuse calls outside of any known agent's run, too."""
    genai_metrics: bool = True
    """Record the metrics of the GenAI conventions, too."""
    summary: bool = True
    """Print a line with the counts on standard error when the program ends."""

    def conversation_attributes(self, conversation_id: str | None, fingerprint: Callable[[str], str]) -> dict[str, str]:
        """Return the attribute with a conversation's id, or no attribute if there is no id, or it is ``off``."""
        if conversation_id is None or self.conversation_id == "off":
            return {}
        shown = conversation_id if self.conversation_id == "raw" else fingerprint(conversation_id)
        return {semconv.CONVERSATION_ID: shown}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Return the settings of these variables. An unknown value is logged, and the safer value is taken."""
        events = _choice(environ, "EVENTS", ("span", "log", "both"), default="", unknown="span")
        return cls(
            span_events=events != "log",
            log_events=events != "span" if events else None,
            # A misspelt value was most likely meant to hide the id, so it must not show it.
            conversation_id=_choice(environ, "CONVERSATION_ID", ("raw", "hash", "off"), default="raw", unknown="off"),
            enforce_without_turn=_choice(
                environ, "ENFORCE_WITHOUT_TURN", ("true", "false"), default="false", unknown="false"
            )
            == "true",
            genai_metrics=_choice(environ, "GENAI_METRICS", ("on", "off"), default="on", unknown="on") == "on",
            summary=_choice(environ, "SUMMARY", ("on", "off"), default="on", unknown="on") == "on",
        )


def _choice(environ: Mapping[str, str], name: str, allowed: tuple[str, ...], *, default: str, unknown: str) -> str:
    value = environ.get(PREFIX + name, "").strip().lower() or default
    if value in (*allowed, default):
        return value
    message = "environment: %s%s = %.60r: must be one of %s; going on with %s."
    logger.error(message, PREFIX, name, value, ", ".join(allowed), unknown)
    return unknown
