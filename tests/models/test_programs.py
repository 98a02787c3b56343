"""Agents of frameworks without an adapter, unchanged: their loops end, and normal runs stay as they are."""

from __future__ import annotations

import json
import traceback
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard import Policy
from otel_loopguard.testing import guarded
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

if TYPE_CHECKING:
    from tests.models.scripts import Script, Step

if find_spec("autogen_agentchat") is None:
    pytest.skip("these programs are tested in an environment of their own", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")

QUESTION = "task-1: who owns the files?"
READ = call("read_file", path="a.txt")
FOUND = "Ada owns them."
LOOKED = "I looked."
MOST = 15
"""A looping run takes no more requests."""
STEPS = (
    READ,
    (call("read_file", path="b.txt"), call("search", query="Ada")),
    call("write_file", path="c.txt", text="x"),
)


def reasoned(tool: str, **arguments: str) -> str:
    """A step of a model that writes its calls as text, as ``dspy`` asks for them."""
    fields = {"next_thought": "I look.", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
    return written(fields)


def written(fields: dict[str, str]) -> str:
    """Fields in the text format of ``dspy``."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()) + "\n\n[[ ## completed ## ]]"


class Program(NamedTuple):
    """A program with the models that its tests need."""

    name: str
    working: Script = Working(*STEPS, answer=FOUND)
    looping: tuple[Step, ...] = (READ,)
    policy: Policy = Policy()
    ends: str = LOOKED
    """Words of the way in which a loop ends if the model answers once the tools are withdrawn."""


ENDS = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo Ada owns them."
STOPPED = "again and again"
PROGRAMS = [
    Program("autogen"),
    Program("haystack"),
    Program("semantic_kernel"),
    Program("agno"),
    Program("llama_index"),
    Program("strands"),
    # It ends by itself when it makes a call for the fifth time, so the guard has to come first.
    Program(
        "crewai",
        looping=(READ, call("search", query="Ada"), call("read_file", path="b.txt")),
        policy=Policy(conclude_after=2, abort_after=3),
    ),
    # Its answer is a call: it takes a text for a mistake, and asks on.
    Program(
        "smolagents",
        Working(READ, call("search", query="Ada"), call("final_answer", answer=FOUND)),
        ends=STOPPED,
    ),
    # Its only tool runs commands, and one of them ends the run. It takes a text for a mistake, too.
    Program(
        "mini_swe_agent",
        Working(call("bash", command="echo 1"), call("bash", command="echo 2"), call("bash", command=ENDS)),
        (call("bash", command="echo 1"),),
        ends=STOPPED,
    ),
]
# Its calls and its answer are text, which is not read: a limit that the docs name.
TEXT_ONLY = Program(
    "dspy",
    Working(
        reasoned("read_file", path="a.txt"),
        reasoned("search", query="Ada"),
        reasoned("finish"),
        answer=written({"reasoning": "I read it.", "answer": FOUND}),
    ),
)
EACH = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


class Ended(NamedTuple):
    """How a run of a program ended."""

    text: str
    """The answer, or the exception with its causes."""
    server: Server
    runs: list[tuple[str, dict[str, Any]]]
    """The tools that were run, sorted: some programs run the calls of one message in threads."""


def run(program: Program, script: Script) -> Ended:
    """Run a program against a server that follows a script."""
    tools = Toolbox()
    module = import_module(f"tests.models.programs.{program.name}")
    with Server(script).running() as server:
        try:
            text = str(module.program(server.url, QUESTION, tools))
        except Exception:
            text = traceback.format_exc()
    assert server.rejected == []
    return Ended(text, server, sorted(tools.runs, key=str))


@pytest.mark.parametrize("program", [*PROGRAMS, TEXT_ONLY], ids=lambda program: program.name)
def test_a_normal_run_is_the_same_with_and_without_the_guard(program):
    """The requests leave byte-identical, the tools run as before, and the user gets the same answer."""
    alone = run(program, program.working)
    with guarded() as recording:
        watched = run(program, program.working)
    assert FOUND in alone.text
    assert (watched.text, watched.runs, watched.server.bodies()) == (alone.text, alone.runs, alone.server.bodies())
    assert recording.trips == []


@EACH
def test_a_loop_ends(program):
    """With the answer of the model, which is asked for it without tools; or in our error, if the program wants none."""
    with guarded(program.policy):
        ended = run(program, Looping(*program.looping, answer=LOOKED))
    assert program.ends in ended.text
    assert len(ended.server.exchanges) <= MOST


@EACH
def test_a_model_that_calls_all_the_same_is_stopped(program):
    """Our error reaches the caller as the program hands errors on, and nothing tries again for ever."""
    with guarded(program.policy):
        ended = run(program, Looping(*program.looping, stubborn=True))
    assert STOPPED in ended.text
    assert len(ended.server.exchanges) <= MOST
