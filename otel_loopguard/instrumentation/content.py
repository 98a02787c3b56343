"""What a model writes and reads: its arguments, and a sentence added to a result where that stays valid."""

from __future__ import annotations

import json
from typing import Any


def arguments_of(written: Any) -> Any:
    """A call's arguments as an object; what a model wrote is JSON text, or was meant to be."""
    if not isinstance(written, (str, bytes)):
        return written
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


def appended(content: Any, text: str) -> Any:
    """The content with the text added at its end; None where that would break it.

    Text that is JSON is left alone, because somebody may parse it; a list of content blocks gets one more block.
    """
    if isinstance(content, str):
        return None if _is_structured(content) else f"{content}\n\n{text}"
    if isinstance(content, list) and all(isinstance(part, (str, dict)) for part in content):
        return [*content, {"type": "text", "text": text}]
    return None


def _is_structured(content: str) -> bool:
    """Whether it is JSON or markup: what looks like an object is taken for one, a single value is tried."""
    text = content.strip()
    if text[:1] + text[-1:] in ("{}", "[]", "<>"):
        return True
    if not text.startswith(_VALUES_BEGIN):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


_VALUES_BEGIN = (*'-"0123456789', "null", "true", "false", "NaN", "Infinity")
