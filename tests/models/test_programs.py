"""Agents of frameworks over real clients, unchanged: their loops end, and normal runs stay as they are."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard import semconv
from otel_loopguard.testing import guarded
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox
from tests.two_figures import done, said, watched

if TYPE_CHECKING:
    from tests.models.scripts import Script, Step

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
    ends: str = LOOKED
    """Words of the way in which a loop ends if the model answers once it is asked for an answer."""
    repeats: int = 2
    """How often each call of a loop is run."""


ENDS = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo Ada owns them."
STOPPED = "again and again"
PROGRAMS = [
    Program("autogen"),
    Program("haystack"),
    Program("semantic_kernel"),
    Program("agno"),
    Program("llama_index"),
    Program("strands"),
    Program("crewai"),
    Program("ag2"),
    Program("agent_framework"),
    Program("google_adk"),
    # Its answer is a call.
    Program("smolagents", Working(READ, call("search", query="Ada"), call("final_answer", answer=FOUND))),
    # Its only tool runs commands, and one of them ends the run. It takes a text for a mistake, too.
    Program(
        "mini_swe_agent",
        Working(call("bash", command="echo 1"), call("bash", command="echo 2"), call("bash", command=ENDS)),
        (call("bash", command="echo 1"),),
        ends=STOPPED,
        repeats=10,  # it has no adapter, so that no call is refused
    ),
    # Its calls and its answer are text, so that it cannot be asked for an answer.
    Program(
        "dspy",
        Working(
            reasoned("read_file", path="a.txt"),
            reasoned("search", query="Ada"),
            reasoned("finish"),
            answer=written({"reasoning": "I read it.", "answer": FOUND}),
        ),
        (reasoned("read_file", path="a.txt"),),
        ends=STOPPED,
    ),
]
MODULES = {"autogen": "autogen_agentchat", "google_adk": "google.adk", "mini_swe_agent": "minisweagent"}
"""The modules of the frameworks whose programs have another name."""


def is_there(program: Program) -> bool:
    """True if the framework of a program is installed. The matrix has all of them, in two environments."""
    try:
        return find_spec(MODULES.get(program.name, program.name)) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False


PROGRAMS = [program for program in PROGRAMS if is_there(program)]
if not PROGRAMS:
    pytest.skip("these programs are tested in environments of their own", allow_module_level=True)
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


@EACH
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
    """With the answer of the model, which is asked for it; or in our error, if the program takes none for an answer.

    Where the framework has an adapter, each call is run twice at most.
    """
    with guarded():
        ended = run(program, Looping(*program.looping, answer=LOOKED))
    assert program.ends in ended.text
    assert len(ended.server.exchanges) <= MOST
    assert max(Counter(map(str, ended.runs)).values(), default=0) <= program.repeats


NOT_AS_SAID = {
    "crewai": "it ends a run of five equal calls itself, so an observed one has no more",
    "mini_swe_agent": "it takes an answer for a mistake, and asks again in another turn",
}
"""The programs of which a watch cannot tell what a guarded one does, and why. The last one but of a stubborn model."""


@pytest.mark.parametrize(
    ("program", "stubborn"),
    [
        pytest.param(program, stubborn, id=f"{program.name}-{'stubborn' if stubborn else 'answers'}")
        for program in PROGRAMS
        for stubborn in (False, True)
        if program.name not in NOT_AS_SAID or (program.name == "mini_swe_agent" and stubborn)
    ],
)
def test_a_guarded_program_does_what_a_watch_has_said(program, stubborn):
    """Calls run and are refused as it has said, whether the model answers without its tools or calls on."""

    def looping():
        return Looping(*program.looping, answer=LOOKED, rounds=14, stubborn=stubborn)

    turn = watched(lambda: run(program, looping()))
    with guarded() as recording:
        ended = run(program, looping())
    ran = sum(outcome not in semconv.REFUSED_OUTCOMES for outcome in recording.outcomes)
    assert done(recording, ran, ended=STOPPED in ended.text) == said(turn, calls_on=stubborn)


@EACH
def test_a_model_that_calls_all_the_same_is_stopped(program):
    """Our error reaches the caller as the program hands errors on, and nothing tries again for ever."""
    with guarded():
        ended = run(program, Looping(*program.looping, stubborn=True))
    assert STOPPED in ended.text
    assert len(ended.server.exchanges) <= MOST
