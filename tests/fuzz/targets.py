"""The targets of the fuzzer: each takes bytes, and raises only if a promise is broken."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard import semconv
from otel_loopguard.cli.replay import sources
from otel_loopguard.cli.replay.replay import Replay
from otel_loopguard.engine.modes import DEFAULT_RULES
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.policy.problems import listed
from otel_loopguard.engine.tools.shell_commands import command_kind, sql_kind
from otel_loopguard.engine.values.canonical import canonical, result_bytes
from otel_loopguard.engine.values.compare import compare, detailed_fingerprints
from otel_loopguard.engine.values.fingerprint import Fingerprinter, error_shape
from otel_loopguard.engine.values.walker import walk
from otel_loopguard.engine.vocabulary import Action, Kind, Outcome, ToolCall
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset, load_text
from otel_loopguard.spans import dialects
from otel_loopguard.spans.dialects import DIALECTS, SpanView
from tests.fuzz.draw import Draw

if TYPE_CHECKING:
    from collections.abc import Callable

_POLICIES = [("default", Policy()), ("repeat_hint", load_preset("repeat_hint").policy)]
_PRINTS = Fingerprinter(b"0123456789abcdef")
_OWN = (
    semconv.TURN_ID, semconv.CALL_INDEX, semconv.TOOL_KIND, semconv.TOOL_NAME, semconv.ARGUMENTS_HASH, semconv.STEP,
    semconv.RESULT_HASH, semconv.ERROR_HASH, semconv.ERROR_TYPE, semconv.OUTCOME, semconv.TOOL_REGISTERED,
    semconv.SCOPE, semconv.RESULT_SAMENESS, semconv.NO_NEWS, semconv.EQUAL_IN_ROW, "cancelled", "blocked",
)  # fmt: skip
_SPAN_WORDS = tuple(
    sorted(
        {word for row in DIALECTS for word in (*row.tool, *row.arguments, *row.results, *row.call_id, *row.sign[1])}
        | {row.sign[0] for row in DIALECTS}
        | {row.arguments_event[0] for row in DIALECTS if row.arguments_event}
        | {"output", "kwargs", "data", "content", "tool_call_id", "status", "args", "inputs", "input_str", "tags"}
        | {*_OWN}
    )
)
_RUN_WORDS = (
    "turns",
    "calls",
    "tool",
    "args",
    "result",
    "result_hash",
    "is_error",
    "at",
    "ended",
    "thought",
    "step",
    "tools",
    "call_id",
)
_SETTINGS = tuple(sorted({*Policy.__dataclass_fields__, *schema.RULE, *ToolContract.__dataclass_fields__}))


# --- replay ------------------------------------------------------------------------------------------------------


def _replayed(data: bytes) -> None:
    """Replay a file: any content ends in results and messages, or in an error of this package."""
    stdin, sys.stdin = sys.stdin, SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data)))  # type: ignore[assignment]
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(LoopGuardError):
            replay = Replay(_POLICIES, json=len(data) % 2 == 0)
            replay.files([sources.Reader(sources.STDIN, 1 << 16)])
            replay.print_tables(out)
            replay.print_notes(out)
    finally:
        sys.stdin = stdin


def replay_bytes(data: bytes) -> None:
    """Replay raw bytes: packed, cut off, no JSON."""
    _replayed(data)


def replay_runs(data: bytes) -> None:
    """Replay runs that are nearly right."""
    draw = Draw(data, _RUN_WORDS)
    lines = []
    while not draw.is_empty and len(lines) < 8:
        turns = [{"calls": [_call(draw) for _ in range(draw.number(12))]} for _ in range(draw.number(3))]
        run = {"run_id": draw.either("a"), "success": draw.either(True), "tools": draw.either(["look"])}
        lines.append(_dumped({**run, "turns": draw.either(turns)}))
    _replayed(b"\n".join(lines))


def _call(draw: Draw) -> Any:
    call = {"tool": draw.either("look"), "args": draw.value(), "result": draw.either("text")}
    numbers = (("step", 1), ("at", 1.5), ("ended", 2.5), ("thought", 12))
    for key, right in (*numbers, ("is_error", True), ("result_hash", "ab" * 8)):
        if draw.number(3) == 0:
            call[key] = draw.either(right)
    return draw.either(call)


def replay_spans(data: bytes) -> None:
    """Replay OTLP that is nearly right, of every instrumentation and our own."""
    draw = Draw(data, _SPAN_WORDS)
    lines = []
    while not draw.is_empty and len(lines) < 8:
        spans = [_span(draw) for _ in range(draw.number(8))]
        scopes = [{"scope": draw.either({"name": draw.text()}), "spans": draw.either(spans)}]
        lines.append(_dumped({"resourceSpans": draw.either([draw.either({"scopeSpans": draw.either(scopes)})])}))
    _replayed(b"\n".join(lines))


def _span(draw: Draw) -> Any:
    row = draw.one_of(DIALECTS)
    attributes = [_attribute(draw, row.sign[0], row.sign[1][0])]
    attributes += [_attribute(draw, draw.text(), draw.value()) for _ in range(draw.number(6))]
    if draw.number(3) == 0:
        own = {semconv.TURN_ID: "t", semconv.ARGUMENTS_HASH: "blake2b-64:00", semconv.CALL_INDEX: draw.number(9)}
        attributes += [_attribute(draw, key, value) for key, value in own.items()]
    span = {
        "name": draw.either("execute_tool look"), "traceId": draw.either("t"), "spanId": draw.either("s"),
        "parentSpanId": draw.either(""), "kind": draw.either(1), "startTimeUnixNano": draw.either("1"),
        "endTimeUnixNano": draw.either("2"), "attributes": draw.either(attributes), "status": draw.either({"code": 2}),
        "events": draw.either([{"name": draw.text(), "attributes": draw.either(attributes)}]),
    }  # fmt: skip
    return draw.either(span)


def _attribute(draw: Draw, key: str, value: Any) -> Any:
    kinds = {str: "stringValue", int: "intValue", bool: "boolValue", float: "doubleValue"}
    written: Any = {kinds.get(type(value), "stringValue"): value}
    if type(value) is list:
        written = {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
    if type(value) is dict:
        written = {
            "kvlistValue": {"values": [{"key": name, "value": {"stringValue": one}} for name, one in value.items()]}
        }
    return draw.either({"key": key, "value": draw.either(written)})


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def spans(data: bytes) -> None:
    """Read the span of another instrumentation, as live watching does: any attributes are a call, or none."""
    draw = Draw(data, _SPAN_WORDS)
    row = draw.one_of(DIALECTS)
    attributes = {draw.text(): draw.value() for _ in range(draw.number(8))} | {row.sign[0]: draw.either(row.sign[1][0])}
    events = [(draw.text(), {draw.text(): draw.value()}) for _ in range(draw.number(3))]
    view = SpanView(draw.text(), attributes, events, failed=draw.number(2) == 0, description=draw.text())
    dialects.open_tool_name(view.name, attributes)
    call = dialects.read(view)
    if call is not None:
        turn = Guard().turn()
        turn.ran(call.call, call.outcome)


# --- policies ----------------------------------------------------------------------------------------------------


def policy_text(data: bytes) -> None:
    """Load a policy file of any content: it gives a policy, and a list of mistakes."""
    _loaded(data.decode("utf-8", "replace"))


def policy_settings(data: bytes) -> None:
    """Load a policy whose settings exist, with values of any kind."""
    draw = Draw(data, (*_SETTINGS, *DEFAULT_RULES, "tools", "words", "modes", "*", "block", "observe", "read"))
    lines = []
    while not draw.is_empty and len(lines) < 20:
        key = ".".join(_quoted(draw.text()) for _ in range(1 + draw.number(4)))
        lines.append(f"[{key}]" if draw.number(4) == 0 else f"{key} = {_toml(draw.value())}")
    _loaded("\n".join(lines))


def _quoted(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "nan" if value is None else json.dumps(value)


def _loaded(text: str) -> None:
    loaded = load_text(text)
    assert isinstance(listed(loaded.problems), str)
    assert not loaded.problems or loaded.policy.action <= Action.OBSERVE
    turn = Guard(loaded.policy).turn()
    for _ in range(3):
        call = ToolCall("look", {"a": 1})
        if turn.begin(call).runs:
            turn.end(call, Outcome("text"))


# --- values ------------------------------------------------------------------------------------------------------


def values(data: bytes) -> None:
    """Encode two values: equal ones have equal bytes, others have not, and both encoders agree."""
    draw = Draw(data)
    one, other = {"a": draw.value()}, {"a": draw.value()}
    for fold_blanks in (True, False):
        assert canonical(one, fold_blanks=fold_blanks) == canonical(copy.deepcopy(one), fold_blanks=fold_blanks)
        if _is_json(one):
            assert canonical(one, fold_blanks=fold_blanks) == walk(one, fold_blanks=fold_blanks)
    if result_bytes(one) == result_bytes(other):
        assert _reference(one) == _reference(other)
    if canonical(one, fold_blanks=False) == canonical(other, fold_blanks=False):
        assert _reference(one, whole=True) == _reference(other, whole=True)


def _is_json(value: Any) -> bool:
    """Return True if orjson writes the value as Python does."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _reference(value: Any, *, whole: bool = False) -> Any:
    """Tell values apart by type and content, slowly. ``whole``: 1.0 is 1, as for arguments."""
    if isinstance(value, dict):
        return "dict", sorted(((key, _reference(item, whole=whole)) for key, item in value.items()), key=repr)
    if isinstance(value, list):
        return "list", [_reference(item, whole=whole) for item in value]
    if whole and isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return "int", repr(int(value))
    return type(value).__name__, repr(value)


def results(data: bytes) -> None:
    """Compare two results under all masks, and commands and errors of them: nothing raises, and nothing is kept."""
    draw = Draw(data)
    first, second = draw.text() + draw.text(), draw.value()
    is_error, mask = draw.number(2) == 0, draw.number(2) == 0
    details = [
        detailed_fingerprints(result_bytes(one), _PRINTS, volatile_keys=("a",), mask=mask, is_error=is_error)
        for one in (first, second)
    ]
    for kind in (Kind.READ, Kind.WRITE):
        compare(*details, kind, moves_cursor=is_error, changed=mask)  # type: ignore[misc]  # there are two
    error_shape(first, second)
    command_kind(first)
    command_kind(second)
    sql_kind(first, Kind.READ)


def turns(data: bytes) -> None:
    """Make calls with any values: nothing raises, and a refused call was made before."""
    draw = Draw(data)
    guard, made = Guard(), set()
    turn = guard.turn()
    names = ("look", "write_file", "run_shell", "run_sql", "call_tool", "get_status", draw.text())
    inputs = [draw.value() for _ in range(1 + draw.number(3))]
    while not draw.is_empty:
        name, arguments, secret = draw.one_of(names), draw.one_of(inputs), "ZqCANARY"
        if draw.number(2):
            arguments = {draw.one_of(("command", "query", "path", "action", "name", "a")): arguments, "b": secret}
        call = ToolCall(name, arguments, known_tools=("look", "run_shell") if draw.number(4) == 0 else None)
        outcome = Outcome(draw.value()) if draw.number(3) else Outcome(error=draw.text())
        decision = turn.begin(call)
        if decision.runs:
            decision = turn.end(call, outcome)
            made.add((name, canonical(arguments)))
        elif not decision.trip.insistable:
            assert (name, canonical(arguments)) in made or decision.record.registered is False or name == "call_tool"
        assert secret not in (decision.message or "")
        guard.turn().restore(turn.state())


def every(data: bytes) -> None:
    """Fuzz all targets in one process: the first byte chooses."""
    if data:
        TARGETS[[*TARGETS][data[0] % (len(TARGETS) - 1)]](data[1:])


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        replay_bytes, replay_runs, replay_spans, spans, policy_text, policy_settings, values, results, turns, every,
    )
}  # fmt: skip
