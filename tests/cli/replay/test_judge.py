"""The names of tools in tables and reports: a model may have made them up."""

from __future__ import annotations

import base64
import json

import pytest

from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import ToolCall, hash_text

COMPILED = CompiledPolicy(Policy(hash_key=b"0123456789abcdef"))


def shown(name, registered):
    return shown_tool(COMPILED.contracts.resolve(ToolCall(name, {})).tool, registered)


def hashed(name):
    return "_unknown:" + hash_text(COMPILED.fingerprinter.of(name.encode())).partition(":")[2][:8]


@pytest.mark.parametrize(
    ("name", "registered", "expected"),
    [
        ("read_file", True, "read_file"),
        ("Look up\x1b[2J", True, "Look_up_2J"),
        ("查询天气", True, "查询天气"),
        ("read_file", None, "read_file"),
        ("read_file", False, hashed("read_file")),
        ("ssn 123-45-6789", False, hashed("ssn 123-45-6789")),
        ("ssn 123-45-6789", None, hashed("ssn 123-45-6789")),
        ("x" * 65, None, hashed("x" * 65)),
        ("blake2b-64:0123456789abcdef", None, "_unknown:01234567"),
        ("blake2b-64:0123456789abcdef", False, "_unknown:01234567"),
    ],
)
def test_a_made_up_name_is_shown_as_a_hash(name, registered, expected):
    """As on spans: a name that is not registered, or, where that is not known, one that has not the form of a name."""
    assert shown(name, registered) == expected


def in_six_ways(word):
    """The word, as it might be found in an output."""
    data = word.encode()
    ways = (data, data.lower(), data[::-1], data.hex().encode(), word.encode("utf-16-le"))
    return (*ways, base64.b64encode(data[: len(data) // 3 * 3]))


@pytest.mark.parametrize("tools", [["read_file"], None], ids=["tools known", "tools unknown"])
def test_no_output_of_a_replay_holds_what_the_model_or_a_tool_wrote(tmp_path, capfd, tools):
    """Tables, JSON lines and the report are searched for arguments, results, errors and made-up names."""
    words = ["CANARYARGUMENT", "CANARYKEY", "CANARYRESULT", "CANARYERROR", "CANARYMADEUP"]
    calls = [
        *[{"tool": "read_file", "args": {"CANARYKEY": "CANARYARGUMENT"}, "result": "CANARYRESULT"}] * 5,
        *[
            {"tool": f"CANARYMADEUP ssn {number}", "args": {}, "result": "CANARYERROR", "is_error": True}
            for number in range(5)
        ],
        *[{"tool": "CANARYMADEUP again", "args": {}, "result": "CANARYERROR", "is_error": True}] * 5,
    ]
    run = {"run_id": "r1", "turns": [{"calls": calls}], **({"tools": tools} if tools else {})}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run))
    page = tmp_path / "report.html"
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--html", str(page)]) == 0
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--json"]) == 0
    printed = capfd.readouterr()
    written = (printed.out + printed.err).encode() + page.read_bytes()
    assert b"read_file" in written
    assert b"_unknown:" in written
    for word in words:
        for form in in_six_ways(word):
            assert form not in written, word
