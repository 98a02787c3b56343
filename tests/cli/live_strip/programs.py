"""Programs with calls that the live strip shows: each writes spans as the recorder does, without the guard's cost."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from tests.cli.screens import Screen

if TYPE_CHECKING:
    from pathlib import Path

BESIDE = """
import subprocess, sys
from pathlib import Path
from otel_loopguard import Policy
from otel_loopguard.cli.live_strip.strip import live_strip
with live_strip(Path(sys.argv[1]), Policy()):
    status = subprocess.call([sys.executable, *sys.argv[2:]])
print("ended with", status)
"""
"""Runs a program with the strip beside it, as `watch` does."""
_CALLS = """
import os, sys
made = 0
def call(times=1):
    global made
    for _ in range(times):
        line = {line!r}.replace("%d", str(made))
        made += 1
        file = os.open({spans!r}, os.O_WRONLY | os.O_APPEND)
        os.write(file, line.encode())
        os.close(file)
"""


def span_line(index: Any, *, tool: str = "look", arguments: str = "blake2b-64:1", **more: Any) -> str:
    """The line of a guarded call. More attributes have the names of ``semconv``."""
    texts = {"TOOL_NAME": tool, "ARGUMENTS_HASH": arguments, "TURN_ID": "t", "OUTCOME": "executed", **more}
    attributes = [{"key": getattr(semconv, name), "value": _value(value)} for name, value in texts.items()]
    attributes.append({"key": semconv.CALL_INDEX, "value": {"intValue": str(index)}})
    span = {"traceId": "a", "spanId": f"b{index}", "name": "execute_tool", "attributes": attributes}
    scopes = [{"scope": {"name": semconv.SCOPE}, "spans": [span]}]
    return json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n"


def _value(value: Any) -> dict[str, Any]:
    kind = "boolValue" if isinstance(value, bool) else "intValue" if isinstance(value, int) else "stringValue"
    return {kind: value}


def beside(tmp_path: Path, text: str, **options: Any) -> Screen:
    """A screen with this program, which has the function ``call(times)``, and the strip."""
    spans, app = tmp_path / "spans.jsonl", tmp_path / "app.py"
    spans.touch()
    app.write_text(_CALLS.format(line=span_line("%d"), spans=str(spans)) + text)
    return Screen(sys.executable, "-c", BESIDE, str(spans), str(app), **options)
