"""Programs whose steps run in several processes, with a real server between them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from tests.stack.harness.process import wait_until

ENVIRONMENT = {"OTEL_PYTHON_LOOPGUARD_HASH_KEY": "k" * 32, "OTEL_PYTHON_LOOPGUARD_SUMMARY": "off"}


class Worker:
    """A process that makes calls."""

    def __init__(self, url, policy="") -> None:
        command = [sys.executable, "-m", "tests.store.worker"]
        environment = {**os.environ, **ENVIRONMENT, "OTEL_PYTHON_LOOPGUARD_STORE": f"{url}?timeout=5"}
        if policy:
            environment["OTEL_PYTHON_LOOPGUARD_CONFIG"] = str(policy)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, line=None, **order):
        """Give an order, or the line that the last one waits for, and return the answer."""
        self.process.stdin.write((line or json.dumps(order)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        """End the process."""
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@contextmanager
def workers(url, count, policy=""):
    """Start workers under this policy, and end them."""
    with ExitStack() as stack:
        started = [Worker(url, policy) for _ in range(count)]
        for worker in started:
            stack.callback(worker.end)
        yield started


@pytest.mark.parametrize("tool", ["read_file", "fetch"])
def test_a_loop_over_three_workers_is_refused(server, key, tool):
    """The third equal call is refused, in sync and in async code, whichever worker makes it."""
    with workers(server.url, 3) as three:
        answers = [worker(tool=tool, path="a.txt", turn=key) for worker in three]
        assert answers[0] in ("the text of a.txt", "the page of a.txt")
        assert "same as before" in answers[1]
        assert json.loads(answers[2])["error"] == "tool_loop_detected"
        assert three[0](tool=tool, path="b.txt", turn=key).endswith("of b.txt")


def test_turns_of_other_names_are_not_shared(server, key):
    """Equal calls of other turns are no loop."""
    with workers(server.url, 2) as two:
        answers = [worker(tool="read_file", path="a.txt", turn=f"{key}-{n}") for n in range(4) for worker in two[:1]]
        assert answers == ["the text of a.txt"] * 4


def test_an_agent_in_another_process_counts_for_the_run_that_asks_it(server, key, tmp_path):
    """The name of the run's tree comes with the headers of its request. Its budget is spent in both processes."""
    policy = tmp_path / "loopguard.toml"
    policy.write_text("[budget.tree]\ncalls = 6\n")
    with workers(server.url, 2, policy) as (run, agent):
        headers = run(tool="ask_agent", path="b.txt", turn=key)
        assert headers["baggage"].startswith("loopguard.tree=")
        for path in "abc":
            agent(tool="read_file", path=path, headers=headers)
        assert run("they are read") == "they are read"
        numbers = itertools.count()
        answers = []
        assert wait_until(
            "the budget is spent",
            lambda: answers.append(run(tool="read_file", path=f"{next(numbers)}", turn=key)) or "spent" in answers[-1],
        )
        assert len(answers) <= 3
        assert "run_budget" in agent(tool="read_file", path="d", headers=headers)
        assert agent(tool="read_file", path="d") == "the text of d"


def test_a_server_that_is_killed_and_comes_back_empty_stops_no_agent(start_server, key):
    """The calls go on, nothing is refused for want of proof, and the turn is shared again afterwards."""
    server = start_server()
    with workers(server.url, 2) as (one, other):
        assert one(tool="read_file", path="a.txt", turn=key) == "the text of a.txt"
        server.kill()
        assert "same as before" in one(tool="read_file", path="a.txt", turn=key)
        assert other(tool="read_file", path="a.txt", turn=key) == "the text of a.txt"
        server.start()
        again = partial(one, tool="read_file", path="a.txt", turn=key)
        assert "tool_loop_detected" not in again()
        assert wait_until("a refusal has its proof", lambda: "tool_loop_detected" in again())


def test_a_message_of_the_user_reaches_the_turn_in_another_process(server, key):
    """The process of the user's message makes no calls; the one with the turn delivers it once."""
    with workers(server.url, 2) as (agent, web):
        agent(tool="read_file", path="a.txt", turn=key, conversation=f"c-{key}")
        assert web(say="look at b.txt", conversation=f"c-{key}") == "True"
        assert web(say="hello", conversation="a conversation that no process has") == "False"
        answers = [agent(tool="read_file", path=f"{n}.txt", turn=key, conversation=f"c-{key}") for n in range(2)]
        assert "look at b.txt" in answers[0]
        assert "look at b.txt" not in answers[1]


def test_a_stop_that_cannot_be_stored_is_an_error_and_arrives_all_the_same(start_server, key):
    """The process that said it keeps trying, and the agent's stops when the server is back."""
    server = start_server()
    with workers(server.url, 2) as (agent, web):
        look = partial(agent, tool="read_file", turn=key, conversation=f"c-{key}")
        look(path="a.txt")
        server.kill()
        assert web(say="stop it", conversation=f"c-{key}", stop=True) == "NotStoredError"
        look(path="b.txt")
        server.start()
        numbers = itertools.count()
        assert wait_until("the agent is stopped", lambda: "stop it" in look(path=f"{next(numbers)}.txt"))


def test_nothing_readable_of_a_call_is_on_the_server(server, key):
    """Not the id of the turn or the conversation, the arguments, the results or the messages."""
    with workers(server.url, 1) as (agent,):
        for _ in range(2):
            agent(tool="read_file", path="SECRET.txt", turn=f"SECRET-{key}", conversation=f"SECRET-c-{key}")
        agent(say="SECRET words", conversation=f"SECRET-c-{key}")
    names = server("KEYS", "*")
    stored = b"".join(names + [server("GET", name) for name in names])
    assert len(stored) > 500
    assert b"SECRET" not in stored
    assert b"read_file" not in stored
