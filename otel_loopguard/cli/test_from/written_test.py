"""Write scripts of loops as a file of tests for pytest."""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.test_from.recorded_loops import RecordedLoop
    from otel_loopguard.cli.test_from.scripts import Script
    from otel_loopguard.testing.loops import ScriptedCall

_LONGEST_LAP = 6


def text_of(tests: Sequence[tuple[str, RecordedLoop]], preset: str | None, policy: str | None, output: str) -> str:
    """Return the text of the file: a test for each name and loop, judged by this preset, policy file or environment."""
    by = "the policy of the environment" if not (preset or policy) else f"the preset {preset}" if preset else "POLICY"
    head = [
        f'"""Loops that were recorded, and that {by} has to stop. Arguments and results are made up.',
        "",
        "Written by `otel-loopguard test-from`. The last call of each script is the one that is stopped.",
        '"""',
        "",
        *(["from pathlib import Path", ""] if policy else []),
        "from otel_loopguard.testing import ScriptedCall, assert_stopped",
    ]
    if policy:
        path = Path(os.path.relpath(policy, Path(output).parent)).as_posix()
        head += ["", f"POLICY = Path(__file__).parent / {_quoted(path)}"]
    more = f", {_quoted(preset)}" if preset else ", POLICY" if policy else ""
    return "\n".join([*head, *(line for name, loop in tests for line in ("", "", *_test(name, loop, more)))]) + "\n"


def names_of(loops: Sequence[RecordedLoop]) -> list[str]:
    """Return a name for the test of each loop: the tool and the mode, and a number if that is not unique."""
    names, seen = [], Counter[str]()
    for loop in loops:
        tool, mode = (re.sub(r"\W+", "_", part, flags=re.ASCII).strip("_") for part in (loop.tool, loop.trip.mode))
        name = f"test_{tool}_{mode}".lower()
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def _test(name: str, loop: RecordedLoop, policy: str) -> Iterator[str]:
    script = loop.script
    assert script is not None  # noqa: S101 - loops without one have no test
    yield f"def {name}():"
    yield f'    """{_does(loop)} (in the recording, call {loop.call} of its turn)."""'
    lines = list(_lines(script.calls))
    if len(lines) == 1:
        yield f"    script = {lines[0].removeprefix('*') if lines[0][0] == '*' else f'[{lines[0]}]'}"
    else:
        yield from ("    script = [", *(f"        {line}," for line in lines), "    ]")
    yield f"    assert_stopped(script{policy}{_more(script)})"


def _does(loop: RecordedLoop) -> str:
    verb = {Action.CONCLUDE: "is the last before the answer", Action.ABORT: "ends the run"}.get(loop.trip.action)
    assert loop.script is not None  # noqa: S101 - as above
    of = f" of {loop.tool}" if is_plain_name(loop.tool) else ""  # any other name might end the text
    return f"Call {len(loop.script.calls)} {verb or 'is refused'}: {loop.trip.mode}{of}"


def _more(script: Script) -> str:
    kinds = ", ".join(f"{_quoted(tool)}: {_quoted(kind)}" for tool, kind in script.kinds)
    parts = (
        f", kinds={{{kinds}}}" if kinds else "",
        f", unknown=[{', '.join(map(_quoted, script.unknown))}]" if script.unknown is not None else "",
        ", have_run=True" if script.have_run else "",
    )
    return "".join(parts)


def _lines(calls: Sequence[ScriptedCall]) -> Iterator[str]:
    """Yield a line for each call, and one for calls or laps that are repeated, or that differ in the letter only."""
    at = 0
    while at < len(calls):
        size, times = max(
            ((size, _repeats(calls, at, size)) for size in range(1, _LONGEST_LAP + 1)),
            key=lambda found: (found[0] * found[1] if found[1] > 1 else 0, -found[0]),
        )
        letters = _letters(calls[at:])
        if times > 1:
            yield f"*[{', '.join(map(_call, calls[at : at + size]))}] * {times}"
            at += size * times
        elif len(letters) > 2:
            any_letter = _call(calls[at]._replace(arguments="?")).replace('"?"', "letter", 1)
            yield f'*[{any_letter} for letter in "{letters}"]'
            at += len(letters)
        else:
            yield _call(calls[at])
            at += 1


def _letters(calls: Sequence[ScriptedCall]) -> str:
    """Return the letters of the calls at the beginning that are equal but for their letter."""
    alike = takewhile(
        lambda call: len(call.arguments) == 1 and call._replace(arguments="") == calls[0]._replace(arguments=""), calls
    )
    return "".join(call.arguments for call in alike)


def _repeats(calls: Sequence[ScriptedCall], at: int, size: int) -> int:
    lap, times = calls[at : at + size], 1
    while calls[at + size * times : at + size * (times + 1)] == lap:
        times += 1
    return times


def _call(call: ScriptedCall) -> str:
    times = "".join(f", {name}={getattr(call, name):g}" for name in ("pause", "took") if getattr(call, name))
    return f"ScriptedCall({', '.join(map(_quoted, call[:3]))}{times})"


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()
