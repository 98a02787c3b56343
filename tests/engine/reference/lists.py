"""The product's lists of words: the reference shares the words, and reads them in its own way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = Path(__file__).resolve().parents[3] / "otel_loopguard" / "engine" / "tools" / "words.toml"
WORDS: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
