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


# --- calls that requests do not show -----------------------------------------------------------------------------

OWN_PROMPT = """
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="x")
function = {"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
prompt = "task-1: who owns the files of this project, and since when?"
def read_file(path):
    return "text"
MORE
while True:
    sent = [{"role": "system", "content": "You work with files."}, {"role": "user", "content": prompt}]
    with SCOPE:
        reply = client.chat.completions.create(
            model="gpt-4.1", messages=sent, tools=[{"type": "function", "function": function}], CHOICE
        )
        if not reply.choices[0].message.tool_calls:
            break
        for call in reply.choices[0].message.tool_calls:
            prompt += f"\\n<call>read_file(a)</call>\\n<result>{read_file('a')}</result>"
"""
HAND = "import otel_loopguard\nread_file = otel_loopguard.tool(read_file)\n"


def own_prompt(*, more: str = "", scope: str = "open(sys.argv[0])", choice: str = "") -> str:
    """A program that writes each result into its one prompt, with these parts."""
    return OWN_PROMPT.replace("MORE", more).replace("SCOPE", scope).replace("CHOICE", choice)


@pytest.mark.parametrize("scope", ["open(sys.argv[0])", "otel_loopguard.turn()"])
def test_results_in_the_program_s_own_prompt_are_not_seen_and_that_is_said(scope: str, tmp_path: Path) -> None:
    """Each reply asks for a call, and no request has a result: the number of replies, and what helps."""
    pytest.importorskip("openai")
    with Server(LOOP).running() as server:
        line = last_line(tmp_path, own_prompt(more="import otel_loopguard\n", scope=scope), server)
    assert len(server.exchanges) == 13
    assert line.startswith(f"{SILENT} 12 replies asked for tool calls, and no request brought their results: ")
    assert "@otel_loopguard.tool" in line


def test_own_prompts_are_not_told_of_where_the_tools_are_guarded(tmp_path: Path) -> None:
    """Who has followed the remedy reads the calls alone."""
    pytest.importorskip("openai")
    with Server(LOOP).running() as server:
        line = last_line(tmp_path, own_prompt(more=HAND, scope="otel_loopguard.turn()"), server)
    assert line.startswith("otel_loopguard: 12 tool calls, no loop.")
    assert "replies" not in line


def test_a_call_that_is_the_answer_is_not_told_of(tmp_path: Path) -> None:
    """A program that demands a call reads its arguments, and has no result to send."""
    pytest.importorskip("openai")
    with Server(LOOP).running() as server:
        line = last_line(tmp_path, own_prompt(choice="tool_choice='required'"), server)
    assert "replies" not in line


TASKS = """
import json, sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="x")
function = {"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
for number in range(12):
    sent = [{"role": "user", "content": "task-QUESTION: who owns the files of this project?".replace("QUESTION", ID)}]
    for _ in range(STEPS):
        reply = client.chat.completions.create(
            model="gpt-4.1", messages=sent, tools=[{"type": "function", "function": function}]
        ).choices[0].message
        sent.append(reply)
        sent += [{"role": "tool", "tool_call_id": call.id, "content": "text"} for call in reply.tool_calls]
"""


@pytest.mark.parametrize(
    ("steps", "question"), [(1, "str(number)"), (2, "str(number)"), (2, "'1'")], ids=["router", "tasks", "equal tasks"]
)
def test_the_last_reply_of_a_conversation_is_not_told_of(steps: int, question: str, tmp_path: Path) -> None:
    """A program may act on a call, and send nothing back: twelve such conversations are no own prompt."""
    pytest.importorskip("openai")
    program = TASKS.replace("STEPS", str(steps)).replace("ID", question)
    with Server(Looping(call("read_file", path="a"), rounds=99)).running() as server:
        line = last_line(tmp_path, program, server)
    assert len(server.exchanges) == 12 * steps
    assert "replies" not in line


TEXT = """
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="x")
sent = [{"role": "user", "content": "task-1: write ACTION: and a call"}]
for _ in range(3):
    reply = client.chat.completions.create(model="gpt-4.1", messages=sent)
    sent += [reply.choices[0].message, {"role": "user", "content": "OBSERVATION: text"}]
"""


def test_calls_in_text_are_not_seen_and_that_is_said(tmp_path: Path) -> None:
    """The requests were read, and had no tools: the number of requests, and what helps."""
    pytest.importorskip("openai")
    with Server(Looping("ACTION: read_file(a)")).running() as server:
        line = last_line(tmp_path, TEXT, server)
    assert line.startswith(f"{SILENT} No request to a model had tools (3 requests read): ")
    assert "@otel_loopguard.tool" in line


@pytest.mark.parametrize("program", ["import openai", "import otel_loopguard; otel_loopguard.instrument()"])
def test_there_is_nothing_more_to_say_of_a_program_that_asks_no_model(program: str, tmp_path: Path) -> None:
    """The line is as short as before."""
    pytest.importorskip("openai")
    with Server(LOOP).running() as server:
        line = last_line(tmp_path, program, server)
    assert line.startswith(f"{SILENT} If the program made any, ")


# --- turns that are equal ----------------------------------------------------------------------------------------

MESSAGES = """
import contextlib, sys
import otel_loopguard
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="x")
function = {"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
sent = []
with SCOPE:
    for number in range(12):
        if FRESH:
            sent = []
        sent.append({"role": "user", "content": f"task-1: go on with step {number}."})
        while True:
            reply = client.chat.completions.create(
                model="gpt-4.1", messages=sent, tools=[{"type": "function", "function": function}]
            ).choices[0].message
            sent.append(reply)
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                sent.append({"role": "tool", "tool_call_id": call.id, "content": "the text of the file"})
"""


def messages(*, fresh: bool, scope: str = "contextlib.nullcontext()") -> str:
    """A program that writes the user's messages itself."""
    return MESSAGES.replace("FRESH", str(fresh)).replace("SCOPE", scope)


CONTINUES = Looping(call("read_file", path="a"), "I have read it. There is more to do.", rounds=99)
FRESH = pytest.mark.parametrize("fresh", [False, True], ids=["continue", "fresh prompts"])


@FRESH
def test_messages_of_the_program_that_repeat_each_other_are_told_of(fresh: bool, tmp_path: Path) -> None:
    """Each is a turn of its own, so nothing is refused: the number of turns, and the settings that help."""
    pytest.importorskip("openai")
    with Server(CONTINUES).running() as server:
        line = last_line(tmp_path, messages(fresh=fresh), server)
    assert len(server.exchanges) == 24
    assert line.startswith("otel_loopguard: 12 tool calls, no loop. 12 turns in a row made the same calls and got the")
    assert "otel_loopguard.turn()" in line
    assert 'set scope = "conversation": https://' in line
    assert "/how-to/heartbeats.md" in line


@FRESH
def test_the_remedy_for_messages_of_the_program_ends_the_loop(fresh: bool, tmp_path: Path) -> None:
    """In one turn the same calls are a loop, also where each prompt has lost the results of the one before."""
    pytest.importorskip("openai")
    scope = "contextlib.suppress(otel_loopguard.ToolLoopError), otel_loopguard.turn()"
    program = messages(fresh=fresh, scope=scope).replace("range(12)", "range(45)")
    with Server(CONTINUES).running() as server:
        line = last_line(tmp_path, program, server)
    assert len(server.exchanges) < 60
    assert "1 loop" in line
    assert line.endswith("1 run ended.")
    assert "in a row" not in line


def test_turns_that_read_something_new_are_not_told_of(tmp_path: Path) -> None:
    """A program whose messages bring work on is left alone."""
    pytest.importorskip("openai")
    changes = messages(fresh=False).replace('"the text of the file"', 'f"the text of file {number}"')
    with Server(CONTINUES).running() as server:
        assert last_line(tmp_path, changes, server) == "otel_loopguard: 12 tool calls, no loop."
