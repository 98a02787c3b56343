"""An editor completes the settings of a policy: what pyright's language server proposes at the cursor."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.settings import ACTIONS
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.skipif(find_spec("basedpyright") is None, reason="basedpyright is not installed: make install")
START = "from basedpyright.langserver import main; main()"


@pytest.fixture(scope="module")
def server():
    """The language server, as an editor starts it."""
    command = [sys.executable, "-c", START, "--stdio"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        folders = [{"uri": ROOT.as_uri(), "name": "project"}]
        ask(process, "initialize", processId=None, rootUri=None, capabilities={}, workspaceFolders=folders)
        send(process, method="initialized", params={})
        yield process
        ask(process, "shutdown")
        send(process, method="exit", params={})


def send(process, **message):
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    process.stdin.flush()


def ask(process, method, **params):
    """Return the server's answer. What it asks in turn has no answer."""
    send(process, id=1, method=method, params=params)
    while True:
        length = 0
        while (line := process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name == b"Content-Length" else length
        message = json.loads(process.stdout.read(length))
        if "method" not in message and message["id"] == 1:
            return message["result"]
        if "method" in message and "id" in message:
            send(process, id=message["id"], result=None)


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ('Policy(action="|")', ACTIONS),
        ('Policy(modes={"|"})', ROWS),
        ('Policy(modes={"generic_repeat": {"|"}})', schema.RULE),
        ('Policy(tools={"read_*": {"|"}})', [*schema.CONTRACT, "modes"]),
        ('tool(kind="|")', schema.KINDS),
    ],
)
def test_an_editor_proposes_the_settings_and_words(server, typed, proposed):
    """It proposes all of them, and nothing else."""
    text, uri = f"from otel_loopguard import Policy, tool\n{typed}\n", (ROOT / f"{hash(typed)}.py").as_uri()
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text.replace("|", "")}
    send(server, method="textDocument/didOpen", params={"textDocument": document})
    place = {"line": 1, "character": typed.index("|")}
    found = ask(server, "textDocument/completion", textDocument={"uri": uri}, position=place)
    assert sorted(one["label"].strip('"') for one in found["items"]) == sorted(map(str, proposed))
