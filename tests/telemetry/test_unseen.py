"""What the guard was not shown, as the program's last line says it: real programs, a model on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.instrumentation.processes import NOTHING_EXPORTED, start
from tests.models.scripts import Looping, call
from tests.models.server import Server

if TYPE_CHECKING:
    from pathlib import Path

LOOP = Looping(call("read_file", path="a"), rounds=12)
SILENT = "otel_loopguard: on, but saw no tool call: nothing was guarded here."


def last_line(tmp_path: Path, program: str, server: Server) -> str:
    """Run a program under ``opentelemetry-instrument``; its first argument is the address of the models."""
    app = tmp_path / "app.py"
    app.write_text(program)
    ended = start(app, server.url, environment={**NOTHING_EXPORTED, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    return lines[-1] if lines else ""


# --- clients that are not read -----------------------------------------------------------------------------------

BEDROCK = """
import sys
import boto3
keys = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
client = boto3.Session(**keys).client("SERVICE", endpoint_url=sys.argv[1])
if "SERVICE" == "bedrock-runtime":
    try:
        client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "task-1"}]}])
    except client.exceptions.ClientError:
        pass
"""
OLLAMA = """
import sys
import ollama
try:
    ollama.Client(sys.argv[1]).chat("m", [{"role": "user", "content": "task-1"}])
except ollama.ResponseError:
    pass
"""


@pytest.mark.parametrize(("client", "program"), [("boto3", BEDROCK), ("ollama", OLLAMA)])
def test_a_client_that_is_not_read_is_named_with_the_remedy(client: str, program: str, tmp_path: Path) -> None:
    """A program whose only client is not patched is told that nothing was seen, why, and what helps."""
    pytest.importorskip(client)
    with Server(LOOP).running() as server:
        line = last_line(tmp_path, program.replace("SERVICE", "bedrock-runtime"), server)
    assert len(server.exchanges) == 1
    assert line.startswith(f"{SILENT} Requests to a model through these clients are not read: {client} ")
    assert "@otel_loopguard.tool" in line
    assert "docs/how-to/gateway.md" in line


def test_a_program_that_uses_boto3_for_something_else_is_told_nothing(tmp_path: Path) -> None:
    """Most programs with this client have no agent: they are as quiet as without the guard."""
    pytest.importorskip("boto3")
    with Server(LOOP).running() as server:
        assert last_line(tmp_path, BEDROCK.replace("SERVICE", "s3"), server) == ""


def test_a_client_that_is_not_read_is_not_named_where_calls_were_seen(tmp_path: Path) -> None:
    """Who has followed the remedy is not told of it again."""
    pytest.importorskip("ollama")
    seen = OLLAMA + "import otel_loopguard\notel_loopguard.call('look', {}, lambda: 1)\n"
    with Server(LOOP).running() as server:
        assert last_line(tmp_path, seen, server) == "otel_loopguard: 1 tool call, no loop."
