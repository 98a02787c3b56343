"""Assemble the HTML file from its parts. Its Content-Security-Policy forbids all requests, and all other scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files
from typing import Any

import orjson

from otel_loopguard.engine.modes import ROWS

_ASSETS = files(__package__) / "assets"
_STYLES = ("vendor/uPlot.min.css", "style.css", "timeline.css")
_LIBRARY, _LICENSE = "vendor/uPlot.iife.min.js", "vendor/uPlot.LICENSE.txt"
_SCRIPTS = (
    "words.js", "data.js", "dom.js", "theme.js", "overview.js", "over_time.js", "tools.js",
    "shape.js", "strip.js", "turns.js", "detail.js", "timeline.js", "listing.js", "start.js",
)  # fmt: skip
_NO_ARGUMENTS = "It holds no argument and no result of any call."
_ARGUMENTS = (
    "By choice it holds arguments of the calls in loops, cut: hand it to nobody. It holds no result of any call."
)
_PLACEHOLDER = re.compile(r"@@(\w+)@@")
# Only these characters can end a script element or begin a comment in it; JSON allows them as escapes.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def page(data: dict[str, Any], *, title: str, subtitle: str, has_arguments: bool = False) -> str:
    """Return the text of the file. ``data`` is what ``Columns.to_json`` returns; title and subtitle are plain text."""
    style = "\n".join(map(_asset, _STYLES))
    script = f"/* uPlot\n\n{_asset(_LICENSE)}*/\n{_asset(_LIBRARY)}\n(() => {{\n'use strict';\n"
    script += f"{_meaning()}\n" + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "arguments": _ARGUMENTS if has_arguments else _NO_ARGUMENTS,
        "style": style,
        "script": script,
        "data": orjson.dumps(data).decode().translate(_ESCAPES),
    }
    return _PLACEHOLDER.sub(lambda place: parts[place[1]], _asset("page.html"))


def _meaning() -> str:
    """Return a line of script with a short description of each mode. Modes of a user's own detectors have none."""
    titles = {str(mode): row.about.title for mode, row in ROWS.items() if row.about is not None}
    return f"const MEANING = {orjson.dumps(titles).decode()};"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
