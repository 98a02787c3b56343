"""Two replicas of the proxy that share turns by a store: each request of a conversation goes to the other one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from otel_loopguard import semconv
from tests.gateway.clients import Ended, Job, Running
from tests.gateway.provider import DONE, LOOKED, provider
from tests.gateway.proxy import START, Proxy
from tests.stack.harness.process import wait_until
from tests.store.servers import KEY, starting
from tests.telemetry.otlp import Receiver, attributes, receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.server import Server as Provider
    from tests.store.servers import Server as Store

AGENTS = (
    ("node", "openai.chat"), ("node", "openai.responses"), ("node", "anthropic.messages"),
    ("go", "openai.chat"), ("python", "openai.chat"),
)  # fmt: skip
MOST = 15
"""A looping program makes no more requests."""
LOOPS = (("looping", False), ("parallel", True), ("stubborn", False))
WORK = (("working", True), ("polling", False))
"""The scripts, and whether they are run as a stream."""
Ends = dict[str, Ended]
"""How conversations ended, by their keys."""


class Replicas(NamedTuple):
    """Two proxies with the guard and one store, one proxy without the guard, and the telemetry of the two."""

    proxies: tuple[Proxy, Proxy]
    bare: Proxy
    provider: Provider
    store: Store
    telemetry: tuple[Receiver, Receiver]

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the two."""
        return tuple(proxy.url for proxy in self.proxies)

    def seen(self, key: str, ended: Ended) -> int:
        """The trips of a conversation as the model and the program see them: results with a sentence, and an error."""
        asked = [one.asked for one in self.provider.exchanges if one.asked and one.asked.key == key]
        results = {result.id for one in asked for result in one.results if "[loopguard]" in result.text}
        return len(results) + bool(ended.error)

    def counted(self, metric: str) -> float:
        """The sum of a counter over both replicas, in what they have exported."""
        return sum(point["value"] for each in self.telemetry for point in each.points(metric))

    def calls(self) -> list[str]:
        """The ids of the calls that have spans, over both replicas."""
        return [str(attributes(span)[semconv.TOOL_CALL_ID]) for each in self.telemetry for span in each.spans]


def jobs(phase: str, scripts: tuple[tuple[str, bool], ...]) -> dict[str, list[Job]]:
    """The jobs of each program. The names of phases have the same length, so that requests can be compared."""
    found: dict[str, list[Job]] = {}
    for number, (language, agent) in enumerate(AGENTS):
        for script, stream in scripts:
            found.setdefault(language, []).append(Job(agent, f"task-{script}{number}{phase} who owns it?", stream))
    return found


def run(stopping: ExitStack, wanted: dict[str, list[Job]], *urls: str) -> list[Running]:
    """Start the programs."""
    running = [Running(language, each, *urls) for language, each in wanted.items()]
    for program in running:
        stopping.callback(program.kill)
    return running


def ends(running: list[Running]) -> Ends:
    """Wait for the programs; return how their conversations ended, by key."""
    return {key: ended for program in running for key, ended in program.ended().items()}


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """All that runs, for all tests of this file."""
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stopping:
        server = stopping.enter_context(provider())
        store = stopping.enter_context(starting(tmp_path_factory))()
        telemetry = (stopping.enter_context(receiver()), stopping.enter_context(receiver()))
        shared = {
            "OTEL_PYTHON_LOOPGUARD_STORE": f"{store.url}?timeout=5",
            "OTEL_PYTHON_LOOPGUARD_HASH_KEY": KEY.decode(),
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
        }
        guarded = [Proxy(folder, server, instrumented=True, **each.environment, **shared) for each in telemetry]
        bare = Proxy(folder, server, callback="")
        for proxy in (*guarded, bare):
            stopping.callback(proxy.stop)
            proxy.start()
        for proxy in (*guarded, bare):
            proxy.wait_ready(START)
        yield Replicas((guarded[0], guarded[1]), bare, server, store, telemetry)


@pytest.fixture(scope="module")
def phases(replicas: Replicas) -> dict[str, Ends]:
    """All conversations through both replicas; loops through one, too, and work without the guard."""
    with ExitStack() as stopping:
        alone = run(stopping, jobs("one", LOOPS), replicas.urls[0])
        unguarded = run(stopping, jobs("off", WORK), replicas.bare.url)
        both = run(stopping, jobs("two", LOOPS + WORK), *replicas.urls)
        return {"one": ends(alone), "two": ends(both), "off": ends(unguarded)}


@pytest.mark.parametrize(("other", "scripts"), [("one", LOOPS), ("off", WORK)], ids=["one", "unguarded"])
def test_two_replicas_are_as(replicas, phases, other, scripts):
    """Loops are as through one replica, and work is as without the guard: same ends, same bytes at the provider."""
    for given in (job for each in jobs("two", scripts).values() for job in each):
        key = given.key.removesuffix("two") + other
        assert comparable(phases["two"][given.key], "two") == comparable(phases[other][key], other)
        requests = replicas.provider.bodies(given.key), replicas.provider.bodies(key)
        assert [one.replace(given.key.encode(), key.encode()) for one in requests[0]] == requests[1] != []


def comparable(ended: Ended, phase: str) -> tuple[object, ...]:
    """What is equal in two phases: the message of an error has the turn."""
    return ended.requests, ended.runs, ended.answer, ended.error and (ended.error["kind"], ended.error["type"])


def test_each_program_ends_as_its_model_lets_it(replicas, phases):
    """Loops end with an answer, or with an error where the model calls all the same."""
    wanted = {"looping": LOOKED, "parallel": LOOKED, "stubborn": "", "working": DONE, "polling": DONE}
    for given in (job for each in jobs("two", LOOPS + WORK).values() for job in each):
        ended, (script,) = phases["two"][given.key], [name for name in wanted if name in given.key]
        assert ended.answer == wanted[script]
        assert (ended.error or {}).get("status", 0) == (400 if script == "stubborn" else 0)
    assert replicas.provider.rejected == []


def test_each_call_has_one_span(replicas, phases):
    """Whichever replica read its result."""
    runs = sum(len(ended.runs) for phase in ("one", "two") for ended in phases[phase].values())
    wait_until("each call has a span", lambda: len(replicas.calls()) >= runs)
    assert len(set(replicas.calls())) == len(replicas.calls()) == runs


def test_trips_are_exact(replicas, phases):
    """The sum over the replicas is what the models and the programs saw."""
    seen = sum(replicas.seen(key, ended) for phase in ("one", "two") for key, ended in phases[phase].items())
    wait_until("all trips are counted", lambda: replicas.counted(semconv.METRIC_TRIPS) >= seen)
    assert replicas.counted(semconv.METRIC_TRIPS) == seen > 100
    assert replicas.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_killed_replica_stops_no_agent(replicas, phases):
    """Under load: the clients send their requests again, and the other replica goes on where the first one was."""
    with ExitStack() as stopping:
        asked = len(replicas.provider.exchanges)
        wanted = jobs("nod", (("looping", False), ("stubborn", False), ("polling", False)))
        running = run(stopping, wanted, *replicas.urls)
        wait_until("the programs are under way", lambda: len(replicas.provider.exchanges) > asked + 30)
        replicas.proxies[1].kill()
        ended = ends(running)
    runs = {"looping": 9, "stubborn": 10, "polling": 12}
    answers = {"looping": LOOKED, "stubborn": "", "polling": DONE}
    for key, one in ended.items():
        (script,) = (name for name in runs if name in key)
        assert (len(one.runs), one.answer) == (runs[script], answers[script])
        assert (one.error or {}).get("status", 0) == (400 if script == "stubborn" else 0)
    calls = [call for call in replicas.calls() if "nod_" in call]
    assert len(set(calls)) == len(calls) > 100


def test_a_killed_store_stops_no_agent(replicas, phases):
    """Under load: the replica judges by what it knows, and loops end. It is the only one if the other was killed."""
    with ExitStack() as stopping:
        asked = len(replicas.provider.exchanges)
        running = run(stopping, jobs("sto", LOOPS[:1] + WORK), replicas.urls[0])
        wait_until("the programs are under way", lambda: len(replicas.provider.exchanges) > asked + 30)
        replicas.store.kill()
        ended = ends(running)
    for key, one in ended.items():
        assert (one.answer, one.error) == (LOOKED if "looping" in key else DONE, None)
        assert one.requests <= MOST
