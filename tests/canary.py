"""A secret, and the forms in which a text could have it."""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import Any

CANARY = 'canary-"7f3e"-näh&x/y'


def encodings(secret: str = CANARY) -> list[str]:
    """The secret raw, in base64, in hexadecimal digits, for URLs, reversed, and escaped for JSON."""
    raw = secret.encode()
    # In base64 the middle depends on the offset alone.
    in_base64 = [base64.b64encode(b"x" * offset + raw).decode()[4:-4] for offset in range(3)]
    escaped = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    return [secret, *in_base64, raw.hex(), urllib.parse.quote(secret, safe=""), secret[::-1], *escaped]


def texts(value: Any) -> list[str]:
    """All texts in a JSON value, which escapes them once more; keys are texts, too."""
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def found_in(*found: str) -> list[str]:
    """The forms of the secret that any of these texts has."""
    return [form for form in encodings() if any(form in text for text in found)]
