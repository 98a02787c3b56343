"""Hand-written loops under the guard: parallel calls, obedient models, many conversations at once, whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from otel_loopguard.testing import guarded
from tests.instrumentation.processes import NOTHING_EXPORTED, clean_environment
from tests.models.loops import installed, run
from tests.models.scripts import Failing, Looping, Obedient, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

LOOPS = installed()
if not LOOPS:
    pytest.skip("no client of a model is installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")
EACH = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)


def drops_none(name: str) -> bool:
    """True where the client does not pass the withdrawal on: the first litellm knows no ``none`` for Anthropic."""
    if name != "litellm.completion_anthropic":
        return False
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    return AnthropicConfig()._map_tool_choice("none", None) is None


ANSWERING = {name: loop for name, loop in LOOPS.items() if not drops_none(name)}
EACH_ANSWERING = pytest.mark.parametrize("loop", ANSWERING.values(), ids=ANSWERING)
FIRST = next(iter(LOOPS))
"""A loop that is there whatever clients are installed."""
QUESTION = "task-1: who owns the files?"
READ = call("read_file", path="a.txt")
SEARCH = call("search", query="Ada")
STEPS = (READ, (call("read_file", path="b.txt"), SEARCH), call("write_file", path="c.txt", text="x"))
LOOKED = "I looked."
MOST = 15
"""A looping run takes no more requests."""


@EACH_ANSWERING
def test_parallel_calls_in_turn_are_a_loop(loop):
    """Messages with several calls, alternating: the run ends as well, and each call has its result."""
    script = Looping((READ, SEARCH), (call("read_file", path="b.txt"), SEARCH), answer=LOOKED)
    with Server(script).running() as server, guarded():
        assert run(loop, server.url, QUESTION, Toolbox()) == LOOKED
    assert server.rejected == []
    assert len(server.exchanges) <= MOST


@EACH
def test_the_model_reads_the_sentence_and_obeys(loop):
    """The sentence is in the result that the model reads next, so a model that obeys makes three calls at most."""
    tools = Toolbox()
    with Server(Obedient(Looping(READ), "I stop here.")).running() as server, guarded():
        assert run(loop, server.url, QUESTION, tools) == "I stop here."
    assert (server.rejected, len(tools.runs) <= 3) == ([], True)


@EACH
def test_a_normal_run_is_left_alone(loop):
    """Twice in a row the same work: requests and tools are as without the guard, and there is no trip."""
    ended = []
    for _ in range(2):
        tools = Toolbox()
        with Server(Working(*STEPS)).running() as server:
            if not ended:
                answer = run(loop, server.url, QUESTION, tools)
            else:
                with guarded() as recording:
                    answer = run(loop, server.url, QUESTION, tools)
        ended.append((answer, sorted(tools.runs, key=str), server.bodies()))
    assert ended[0] == ended[1]
    assert recording.trips == []


def test_requests_that_are_tried_again_are_no_loop():
    """The client asks an overloaded service again by itself: the calls count once."""
    with Server(Failing(Working(*STEPS))).running() as server, guarded() as recording:
        assert run(LOOPS[FIRST], server.url, QUESTION, Toolbox()) == "Done."
    assert len(server.rejected) == len(STEPS) + 1
    assert recording.trips == []


def test_two_hundred_conversations_at_once_are_judged_as_alone():
    """Half of them loop and half work, in fifty threads: each looping one ends, and no other is touched."""
    looping = Looping(READ, answer=LOOKED)
    scripts = {f"task-{number}": looping if number % 2 else Working(*STEPS) for number in range(200)}

    def converse(key: str) -> tuple[str, int]:
        tools = Toolbox()
        return run(LOOPS[FIRST], server.url, f"{key}: who owns the files?", tools), len(tools.runs)

    with Server(scripts).running() as server, guarded():
        alone = [converse(key) for key in ("task-1", "task-2")]
    with Server(scripts).running() as server, guarded(), ThreadPoolExecutor(50) as pool:
        assert list(pool.map(converse, scripts)) == [alone[1], alone[0]] * 100
    assert server.rejected == []


def test_an_unchanged_program_is_guarded_from_its_start():
    """Under ``opentelemetry-instrument`` the loop of a plain program ends; left out, it runs to the script's end."""
    launcher = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    ended = []
    for left_out in ("", "loopguard"):
        settings = {**NOTHING_EXPORTED, **({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": left_out} if left_out else {})}
        with Server(Looping(READ, answer=LOOKED)).running() as server:
            program = subprocess.run(
                [launcher, sys.executable, "-m", "tests.models.loops", FIRST, server.url, QUESTION],
                env=clean_environment({"PYTHONPATH": os.getcwd(), **settings}),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        assert LOOKED in program.stdout, program.stderr
        ended.append(len(server.exchanges))
    assert ended[0] <= MOST < ended[1]
