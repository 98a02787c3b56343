"""Each hand-written loop talks to the server as to the real service."""

from __future__ import annotations

import pytest

from tests.models.loops import installed, run
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

LOOPS = installed()
if not LOOPS:
    pytest.skip("no client of a model is installed", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS),
]
STEPS = (
    call("read_file", path="a.txt"),
    (call("read_file", path="b.txt"), call("search", query="Ada")),
    call("write_file", path="c.txt", text='{"quoted": "text"}'),
)


def test_a_working_model_is_answered_call_by_call(loop):
    """All calls are run once, in order, and the user gets the answer; the server has nothing to reject."""
    tools = Toolbox()
    with Server(Working(*STEPS, answer="The owner is Ada.")).running() as server:
        assert run(loop, server.url, "task-1: who owns the files?", tools) == "The owner is Ada."
    assert server.rejected == []
    assert [name for name, _ in tools.runs] == ["read_file", "read_file", "search", "write_file"]
    assert [one.asked.number for one in server.exchanges] == [1, 2, 3, 4]


def test_a_looping_model_is_followed_to_the_end_of_its_script(loop):
    """Nothing in a loop stops a model that repeats itself."""
    tools = Toolbox()
    with Server(Looping(STEPS[0], rounds=12)).running() as server:
        assert run(loop, server.url, "task-1: who owns the files?", tools) == "I looked."
    assert (server.rejected, len(tools.runs)) == ([], 12)
