"""Search every exported and printed byte for words that must not leave the process, in six encodings."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.reliability.result import Row
from tests.instrumentation.processes import ROOT, start
from tests.telemetry.otlp import receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "Leaks"
ABOUT = """A program has a drawn word in each argument, key, result, exception, made-up tool name, message of the user
and sentence of the policy. Its telemetry, log, stderr, errors and the reports of `replay` are searched for each word:
plain, reversed, as hex, UTF-16 and base64. *Broken*: words that are found."""
APP = ROOT / "tests" / "telemetry" / "leaky_app.py"
SETTINGS = (
    {"EVENTS": "span", "CONVERSATION_ID": "hash"},
    {"EVENTS": "log", "CONVERSATION_ID": "off", "ACTION": "observe"},
    {"EVENTS": "both", "CONVERSATION_ID": "hash", "ACTION": "nudge"},
    {"EVENTS": "both", "CONVERSATION_ID": "hash", "ABORT_AFTER": "3"},
)
WORDS = tuple(re.findall(r"WORDS\[['\"]([^'\"]+)['\"]\]", APP.read_text("utf-8")))


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Run the program under several settings."""
    random = Random(seed)
    for settings in SETTINGS if scale >= 1 else SETTINGS[-1:]:
        words = {name: f"Zq{random.getrandbits(44):011X}" for name in dict.fromkeys(WORDS)}
        words["policy"] = f"Zq{random.getrandbits(44):011X}"
        yield _searched(words, settings)


def _searched(words: dict[str, str], settings: dict[str, str]) -> Row:
    with tempfile.TemporaryDirectory() as folder, receiver() as received:
        policy = Path(folder, "policy.toml")
        sentence = words["policy"]
        policy.write_text(
            f'[sentences]\ngeneric_repeat = "{sentence}"\n"generic_repeat.nudge" = "{sentence}"\n', "utf-8"
        )
        environment = {
            **received.environment,
            **{f"OTEL_PYTHON_LOOPGUARD_{name}": value for name, value in settings.items()},
            "OTEL_PYTHON_LOOPGUARD_CONFIG": str(policy),
            "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
            "OTEL_TRACES_EXPORTER": "otlp,console",
            "OTEL_METRICS_EXPORTER": "otlp,console",
            "OTEL_LOGS_EXPORTER": "otlp,console",
            "CANARIES": json.dumps(words),
            "PYTHONPATH": str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", ""),
        }
        ended = start(APP, environment=environment)
        if "done" not in ended.stdout:
            raise RuntimeError(ended.stderr[-2000:])
        places = {
            "OTLP": received.all_bytes(),
            "console exporters and the abort's error": ended.stdout.encode(),
            "log and stderr": ended.stderr.encode(),
            "replay": _replayed(received.bodies["/v1/traces"], Path(folder)),
        }
    name = ", ".join(f"{key}={value}" for key, value in settings.items())
    found = [
        f"{word} in {place}"
        for place, data in places.items()
        for word in words
        if any(form in data for form in forms(words[word]))
    ]
    note = "; ".join([f"{sum(map(len, places.values())):,} bytes", *found])
    return Row(name, len(words) * len(places), len(found), note)


def forms(word: str) -> Iterator[bytes]:
    """Yield the word in all encodings that are searched for."""
    for text in {word, word.lower(), word[::-1]}:
        data = text.encode()
        yield data
        yield data.hex().encode()
        yield text.encode("utf-16-le")
        for offset in range(3):
            encoded = base64.b64encode(b"\0" * offset + data)
            yield encoded[(0, 2, 3)[offset] : (offset + len(data)) * 8 // 6]  # the characters of these bytes alone


def _replayed(bodies: list[bytes], folder: Path) -> bytes:
    """Return every report that `otel-loopguard replay` makes of these spans."""
    from google.protobuf.json_format import MessageToJson
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans, page, out = folder / "spans.jsonl", folder / "page.html", io.BytesIO()
    with spans.open("w", encoding="utf-8") as file:
        for body in bodies:
            file.write(MessageToJson(ExportTraceServiceRequest.FromString(body), indent=None) + "\n")
    for options in ([], ["--json"], ["--html", str(page)]):
        command = [sys.executable, "-m", "otel_loopguard.cli.main", "replay", str(spans), *options]
        ended = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
        if ended.returncode > 1:
            raise RuntimeError(ended.stderr.decode())
        out.write(ended.stdout + ended.stderr)
    return out.getvalue() + page.read_bytes()
