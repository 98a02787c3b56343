"""Agents in other languages through the real proxy: loops end, and work is as through a proxy without the guard."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import httpx
import pytest

from otel_loopguard import semconv
from tests.gateway.clients import AGENTS, Ended, Job, Running
from tests.gateway.provider import LOOKED, STOPPED, WORKING, provider
from tests.gateway.proxy import ANTHROPIC, KEY, OPENAI, START, Proxy
from tests.stack.harness.process import wait_until
from tests.telemetry.otlp import Receiver, attributes, receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.server import Exchange, Server

MOST = 15
"""A looping program makes no more requests."""
SCRIPTS = {False: ("looping", "stubborn", "working", "polling"), True: ("parallel", "stubborn", "obedient", "working")}
"""Those that are run whole, and those that are run as a stream: all of them both ways would take twice the time."""


class Conversation(NamedTuple):
    """What one program does."""

    language: str
    script: str
    job: Job
    guarded: bool = False
    """True if the program is guarded in its own process, too."""

    def __str__(self) -> str:
        return f"{self.script}-{self.language}-{self.job.agent}{'-stream' if self.job.stream else ''}"


def conversations(language: str, agent: str, *, stream: bool, guarded: bool = False) -> list[Conversation]:
    """The conversations of one agent. The key of each is its own."""
    number = f"{language}{AGENTS[language].index(agent)}{'s' if stream else ''}{'g' if guarded else ''}"
    return [
        Conversation(
            language, script, Job(agent, f"task-{script}0{number} who owns the files?", stream=stream), guarded
        )
        for script in SCRIPTS[stream]
    ]


ALL = [
    one
    for language, agents in AGENTS.items()
    for agent in agents
    for stream in SCRIPTS
    for one in conversations(language, agent, stream=stream)
]
GUARDED = [
    one for stream in SCRIPTS for one in conversations("python", "openai.chat", stream=stream, guarded=True)
]  # fmt: skip


def each(*scripts: str) -> pytest.MarkDecorator:
    """Run a test for each conversation that has one of these scripts."""
    return pytest.mark.parametrize("one", [one for one in ALL if one.script in scripts], ids=str)


class Way(NamedTuple):
    """A proxy, the provider behind it, and how the conversations through it ended, by their keys."""

    proxy: Proxy
    server: Server
    ended: dict[str, Ended]

    def exchanges(self, one: Conversation) -> list[Exchange]:
        """The requests of a conversation that the provider got."""
        return [each for each in self.server.exchanges if each.asked and each.asked.key == one.job.key]


class Ways(NamedTuple):
    """Through the guard, and without it."""

    guarded: Way
    bare: Way
    telemetry: Receiver

    def spans(self, one: Conversation) -> set[str]:
        """The calls of a conversation of which the guard wrote spans."""
        calls = {str(attributes(span)[semconv.TOOL_CALL_ID]) for span in self.telemetry.spans}
        return {call for call in calls if f"_{one.job.key}_" in call}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """All conversations, held once: those that loop through the guard only."""
    folder = tmp_path_factory.mktemp("proxies")
    with ExitStack() as stopping:
        servers = [stopping.enter_context(provider()) for _ in range(2)]
        telemetry = stopping.enter_context(receiver())
        settings = {**telemetry.environment, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        proxies = [Proxy(folder, servers[0], instrumented=True, **settings), Proxy(folder, servers[1], callback="")]
        for proxy in proxies:
            stopping.callback(proxy.stop)
            proxy.start()
        for proxy in proxies:
            proxy.wait_ready(START)
        held = [(ALL, GUARDED), ([one for one in ALL if one.script in WORKING], GUARDED)]
        running = []
        for proxy, (alone, guarded) in zip(proxies, held, strict=True):
            for language in AGENTS:
                jobs = [one.job for one in alone if one.language == language]
                running.append((proxy, Running(language, jobs, proxy.url)))
            running.append((proxy, Running("python", [one.job for one in guarded], proxy.url, guarded=True)))
        for _, program in running:
            stopping.callback(program.kill)
        ended: dict[Proxy, dict[str, Ended]] = {proxy: {} for proxy in proxies}
        for proxy, program in running:
            ended[proxy] |= program.ended()
        yield Ways(
            *(Way(proxy, server, ended[proxy]) for proxy, server in zip(proxies, servers, strict=True)), telemetry
        )


@each("looping", "parallel")
def test_a_loop_ends_with_an_answer(ways, one):
    """The tools are withdrawn, and the model answers: the program ends as it does after its work."""
    ended = ways.guarded.ended[one.job.key]
    assert (ended.answer, ended.error) == (LOOKED, None)
    assert ended.requests <= MOST
    wait_until("each call has a span", lambda: len(ways.spans(one)) == len(ended.runs))
    assert [each.asked.choice for each in ways.guarded.exchanges(one)][-2:] == ["auto", "none"]


@each("stubborn")
def test_a_model_that_calls_all_the_same_is_refused(ways, one):
    """The program gets its client's exception for status 400 once, and reads why, how often, and how to turn it off."""
    ended = ways.guarded.ended[one.job.key]
    assert ended.error is not None
    assert ended.error["status"] == 400
    assert ended.error["kind"] in ("BadRequestError", "AI_APICallError", "APICallError", "*apierror.Error")
    assert ended.error["type"] == ("invalid_request_error" if "messages" in one.job.agent else "tool_loop_detected")
    for word in ("tool_loop_detected", "read_file", "mode generic_repeat, count ", "OTEL_PYTHON_LOOPGUARD_ACTION"):
        assert word in ended.error["body"]
    assert ended.requests == len(ended.runs) + 1 <= MOST


@each("obedient")
def test_a_model_that_reads_the_sentence_stops(ways, one):
    """The sentence is in the result that the model reads next."""
    ended = ways.guarded.ended[one.job.key]
    assert (ended.answer, ended.error) == (STOPPED, None)
    assert ended.requests <= 5


@each(*WORKING)
def test_work_is_as_without_the_guard(ways, one):
    """The same answer, tools and number of requests, and the provider got the same bytes."""
    key = one.job.key
    assert ways.guarded.ended[key] == ways.bare.ended[key]
    assert ways.guarded.ended[key].error is None
    assert ways.guarded.server.bodies(key) == ways.bare.server.bodies(key) != []


@pytest.mark.parametrize("one", GUARDED, ids=str)
def test_calls_that_the_program_has_judged_are_not_judged_again(ways, one):
    """A program that is guarded in its own process ends as through a proxy without the guard, which writes no spans."""
    through = [way.ended[one.job.key] for way in (ways.guarded, ways.bare)]
    assert through[0].answer == through[1].answer
    assert [bool(each.error) for each in through] == [one.script == "stubborn"] * 2
    assert max(each.requests for each in through) <= MOST
    assert ways.spans(one) == set()


def test_no_history_was_malformed(ways):
    """The provider, as strict as the real ones, rejected nothing."""
    assert ways.guarded.server.rejected == ways.bare.server.rejected == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_answers_come_back_unchanged(ways, api, stream):
    """Status, names of the headers, and every byte of the body but the proxy's own ids."""
    question = f"task-working{api}{stream}"
    messages = [{"role": "user", "content": question}]
    path, body = {
        "chat": ("chat/completions", {"model": OPENAI, "messages": messages}),
        "responses": ("responses", {"model": OPENAI, "input": question}),
        "messages": ("messages", {"model": ANTHROPIC, "max_tokens": 9, "messages": messages}),
    }[api]
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    answers = [
        httpx.post(f"{way.proxy.url}/v1/{path}", json={**body, "stream": stream}, headers=headers, timeout=60)
        for way in (ways.guarded, ways.bare)
    ]
    guarded, bare = ((one.status_code, sorted(one.headers), comparable(one.text)) for one in answers)
    assert guarded == bare
    assert guarded[0] == 200


def comparable(text: str) -> str:
    """An answer without what the proxy makes up for each request: its response ids, and the time of a chunk."""
    return re.sub(r'"created(_at)?":\s*\d+', "", re.sub(r"resp_[\w=-]+", "resp", text))
