"""The doctor's count of requests to a model that no patched client sends."""

from __future__ import annotations

import json

import pytest

from otel_loopguard.cli.doctor.finding_kinds import TELLS, WARNS
from tests.cli.doctor.test_command import STRONG, examined, script
from tests.models.scripts import Working
from tests.models.server import Server

BY_HAND = """
import json, sys
headers = {"Content-Type": "application/json", "Authorization": "Bearer SECRET"}
from urllib.request import Request, urlopen
body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "task-1: SECRET"}]}
for _ in range(3):
    urlopen(Request(sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(), headers))
"""
BY_HTTPX = """
import sys
import httpx
body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "task-1"}]}
for _ in range(3):
    httpx.post(sys.argv[1] + "/v1/chat/completions?x=SECRET", json=body, headers={"Authorization": "Bearer SECRET"})
"""
BY_CLIENT = """
import sys
from openai import OpenAI
for _ in range(3):
    OpenAI(base_url=sys.argv[1] + "/v1", api_key="x").chat.completions.create(
        model="gpt-4.1", messages=[{"role": "user", "content": "task-1"}]
    )
"""


@pytest.mark.parametrize(
    ("module", "text", "level"),
    [
        ("urllib", BY_HAND, WARNS),
        ("urllib", BY_HAND + STRONG, TELLS),
        ("httpx", BY_HTTPX, WARNS),
        ("openai", BY_CLIENT, None),
    ],
    ids=["urllib", "urllib, with calls", "httpx", "a client that is read"],
)
def test_requests_to_a_model_by_hand(tmp_path, module, text, level):
    """Such requests have a finding with their number and the end of their path; those of a patched client have none."""
    pytest.importorskip(module)
    with Server(Working(answer="Done.")).running() as server:
        found, done = examined(tmp_path, *script(tmp_path, text), server.url)
    assert (len(server.exchanges), found["program_status"]) == (3, 0)
    told = [(one["level"], one["text"][:41]) for one in found["findings"] if one["code"] == "requests-not-read"]
    assert told == ([(level, "3 requests by HTTP to paths of models' AP")] if level else [])
    assert "SECRET" not in json.dumps(found) + done.stderr
