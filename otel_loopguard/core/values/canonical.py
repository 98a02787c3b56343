"""Any Python value as canonical bytes: the same value always gives the same bytes, whatever the order of its keys.

Values that are plain JSON are written by orjson (a microsecond); everything else by a writer of our own that
walks with an explicit stack, so that depth, cycles and hostile objects cannot hurt it. Both write the same
bytes for the same value, which a test holds against each other. No method of a foreign object is ever called.
"""

from __future__ import annotations

import re
from typing import Any

from otel_loopguard.core.values import fast_json, introspect
from otel_loopguard.core.values.normalise import normalise_text, parsed, utf8
from otel_loopguard.core.values.walker import LARGEST_WHOLE_FLOAT, written

# The exact look for what is normalised: 1.0 is 1, blanks fold, text may hold JSON of its own.
_NEEDS_NORMALISING = re.compile(r'\.0(?=[,}\]]|\Z)|  |\\[tnr]|" | "|"[\[{(]')
_LONGEST_SEARCHED = 1_000_000


def canonical(value: Any, *, loose: bool = True) -> bytes:
    """The canonical bytes of a call's arguments.

    ``loose`` folds blanks in single-line strings and reads JSON or Python-literal text as its object; off for
    tools that write, where blanks are content. The arguments' own text is read as its object all the same.
    """
    if type(value) is not dict:
        value = introspect.as_builtin(value)
        if type(value) is str:
            value = parsed(value)
    if value is None:
        return b"{}"
    try:
        plain = fast_json.dumps(value)
        if len(plain) > _LONGEST_SEARCHED or not _is_suspicious(plain.decode()):
            return plain
        return fast_json.dumps(_normalised(value, "", loose=loose))
    except Exception:  # noqa: BLE001 - JSON it is not, for whatever reason
        return written(value, loose=loose)


def _is_suspicious(text: str) -> bool:
    """Whether anything is to be normalised. Every call passes here: a look for one character costs next to nothing,
    one for two costs ten times that, and the exact look a hundred times.
    """
    return (
        (" " in text and ("  " in text or '" ' in text or ' "' in text))
        or "\\" in text
        or ("." in text and ".0" in text)
        or ("[" in text and '"[' in text)
        or ("{" in text[1:] and '"{' in text)
        or ("(" in text and '"(' in text)
    ) and _NEEDS_NORMALISING.search(text) is not None


def _normalised(value: Any, name: str, *, loose: bool) -> Any:
    """A plain JSON value with whole floats as integers and, if ``loose``, its texts loosened."""
    if isinstance(value, str):
        found = normalise_text(value, name) if loose else value
        return found if isinstance(found, str) else _normalised(found, name, loose=loose)
    if isinstance(value, float):
        return int(value) if abs(value) < LARGEST_WHOLE_FLOAT and value.is_integer() else value
    if isinstance(value, dict):
        return {key: _normalised(item, key, loose=loose) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalised(item, "", loose=loose) for item in value]
    return value


def result_bytes(value: Any) -> bytes:
    """The bytes of a result: text as it is, anything else canonical but not normalised; what cannot be read is new."""
    if type(value) not in introspect.BUILTINS:
        value = introspect.as_builtin(value)
    if type(value) is str:
        return utf8(value)
    try:
        if type(value) in _BLOCKS:
            return bytes(value)
        return fast_json.dumps(value)
    except Exception:  # noqa: BLE001 - as above
        return written(value, loose=False, unread=True)


_BLOCKS = frozenset({bytes, bytearray, memoryview})
