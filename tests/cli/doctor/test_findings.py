"""The doctor's findings about calls that it was not shown: real programs, a model on loopback."""

from __future__ import annotations

import pytest

from tests.cli.doctor.test_command import examined, script
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
