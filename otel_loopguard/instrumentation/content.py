"""Read the arguments that a model wrote, and add a sentence to a result where the result stays valid."""

from __future__ import annotations

import json
from typing import Any

from otel_loopguard.interrupts import pass_interrupt


def arguments_of(written: Any) -> Any:
    """Return a call's arguments, parsed if they are JSON text. Return any other value, and invalid JSON, as it is."""
    if not isinstance(written, (str, bytes)):
        return written
    try:
        return json.loads(written or "{}")
    except ValueError as error:
        pass_interrupt(error)
        return written


def appended(content: Any, text: str) -> Any:
    """Return a copy of the content with the text at its end. A list of content blocks gets one more block.

    Return None, so that the content is left alone, if it is JSON or markup, which a program may parse, or of another
    type.
    """
    if isinstance(content, str):
        return None if _is_structured(content) else f"{content}\n\n{text}"
    if isinstance(content, list) and all(isinstance(part, (str, dict)) for part in content):
        return [*content, {"type": "text", "text": text}]
    return None


def _is_structured(content: str) -> bool:
    """Return True for JSON or markup. Brackets at both ends are enough; a single value is parsed."""
    text = content.strip()
    if text[:1] + text[-1:] in ("{}", "[]", "<>"):
        return True
    if not text.startswith(_VALUES_BEGIN):
        return False
    try:
        json.loads(text)
    except ValueError as error:
        pass_interrupt(error)
        return False
    return True


_VALUES_BEGIN = (*'-"0123456789', "null", "true", "false", "NaN", "Infinity")
