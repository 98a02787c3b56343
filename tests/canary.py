"""A secret, and the forms in which a text could have it."""

from __future__ import annotations

import base64
import json
import urllib.parse

CANARY = 'canary-"7f3e"-näh&x/y'


def encodings(secret: str = CANARY) -> list[str]:
    """The secret raw, in base64, in hexadecimal digits, for URLs, reversed, and escaped for JSON."""
    raw = secret.encode()
    # In base64 the middle depends on the offset alone.
    in_base64 = [base64.b64encode(b"x" * offset + raw).decode()[4:-4] for offset in range(3)]
    escaped = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    return [secret, *in_base64, raw.hex(), urllib.parse.quote(secret, safe=""), secret[::-1], *escaped]
