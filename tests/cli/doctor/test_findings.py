"""The doctor's findings about calls that it was not shown: real programs, a model on loopback."""

from __future__ import annotations

import pytest

from tests.cli.doctor.test_command import examined, script
from tests.models.scripts import Working
from tests.models.server import Server
from tests.telemetry.test_unseen import CONTINUES, HAND, LOOP, TEXT, messages, own_prompt

pytest.importorskip("openai")


def found_in(tmp_path, program, model=LOOP):
    """The doctor's findings about this program, by their codes."""
    with Server(model).running() as server:
        found, _ = examined(tmp_path, *script(tmp_path, program), server.url)
    return {one["code"]: one for one in found["findings"]}


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        (own_prompt(), "replies-not-answered", "12 replies asked for tool calls, and no request brought their"),
        (TEXT, "requests-without-tools", "No request to a model had tools (3 requests read): calls in plain text"),
    ],
    ids=["own prompt", "text"],
)
def test_calls_that_requests_do_not_show_are_a_warning_with_the_remedy(tmp_path, program, code, text):
    """The doctor says more than that it saw no call: why, and what helps."""
    found = found_in(tmp_path, program)
    assert (found[code]["level"], found[code]["text"].startswith(text)) == ("warns", True)
    assert "@otel_loopguard.tool" in found[code]["remedy"]
    assert {"replies-not-answered", "requests-without-tools", "no-calls"} & found.keys() == {code, "no-calls"}


def test_they_are_gone_where_the_remedy_was_followed(tmp_path):
    """The calls of a decorated tool are seen, whatever its program's prompts are like."""
    found = found_in(tmp_path, own_prompt(more=HAND, scope="otel_loopguard.turn()"))
    assert {"replies-not-answered", "requests-without-tools", "no-calls"}.isdisjoint(found)


@pytest.mark.parametrize("fresh", [False, True], ids=["continue", "fresh prompts"])
def test_turns_that_are_equal_are_a_warning_with_the_remedy(tmp_path, fresh):
    """The calls were seen, and no loop in them; the doctor does not leave it at that."""
    one = found_in(tmp_path, messages(fresh=fresh), CONTINUES)["equal-turns"]
    assert (one["level"], one["text"].startswith("12 turns in a row made the same calls")) == ("warns", True)
    assert "otel_loopguard.turn()" in one["remedy"]


STREAM = """
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="x")
for more in ({}, {"stream_options": {"include_usage": True}}):
    for number in range(2):
        messages = [{"role": "user", "content": f"task-{number}"}]
        for _ in client.chat.completions.create(model="gpt-4.1", messages=messages, stream=True, **more):
            pass
"""
PRICES = '[cost_per_million_tokens]\n"{}" = {{ input = 1, output = 2 }}\n[budget.turn]\ncost = 5'


@pytest.mark.parametrize(
    ("policy", "level", "without_price"),
    [
        ("budget.turn.requests = 9", "tells", False),
        (PRICES.format("gpt-*"), "warns", False),
        (PRICES.format("other"), "warns", True),
    ],
)
def test_requests_that_no_budget_counts_are_named(tmp_path, policy, level, without_price):
    """Streams tell their tokens only if they are asked to, and each model needs a price."""
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    with Server(Working(answer="Done.")).running() as server:
        more = {"OTEL_PYTHON_LOOPGUARD_CONFIG": str(path)}
        found, _ = examined(tmp_path, *script(tmp_path, STREAM), server.url, more=more)
    told = {one["code"]: one for one in found["findings"]}
    assert told["tokens-unknown"]["level"] == level
    assert told["tokens-unknown"]["text"].startswith("2 of 4 requests did not tell their tokens")
    assert ("no-price" in told) == without_price
    if without_price:
        assert told["no-price"]["text"].startswith("2 of 4 requests were to models without a price")
