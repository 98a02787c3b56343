"""The guard in two real proxies of LiteLLM with one store: each request of a conversation goes to the other one.

They are started with ``opentelemetry-instrument``, and ``custom_auth`` names the tenants. ``test_clients.py`` has more
agents in other languages, a proxy without a store, and answers compared with those of a proxy without the guard.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard import semconv
from otel_loopguard.guard.ending import ABORTED, ANSWERED, CONCLUDED
from tests.gateway.agent import MODELS, Agent, RefusedError
from tests.gateway.clients import AT_ONCE, Ended, Job, Running
from tests.gateway.provider import DONE, LOOKED, READ, provider
from tests.gateway.proxy import DOWN, OPENAI, START, Proxy
from tests.models.wire import CHAT, looped
from tests.stack.harness.process import wait_until
from tests.store.servers import KEY, PATIENT, starting
from tests.telemetry.otlp import Receiver, attributes, receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.server import Server as Provider
    from tests.store.servers import Server as Store

AUTH = """
from litellm.proxy._types import UserAPIKeyAuth

async def identify(request, key):
    if not key.startswith("sk-"):
        raise ValueError("no such key")
    name, _, team = key.removeprefix("sk-").partition(".")
    return UserAPIKeyAuth(api_key=name, team_id=team or None)
"""
"""Keys like ``sk-NAME.TEAM``."""
PATIENCE = "[modes.poll_no_progress]\nmin_interval = 600\n"
"""On a busy machine ten seconds pass between two requests of an agent, which would be taken for a slow poll."""
EACH_API = pytest.mark.parametrize("api", MODELS)
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

    def agent(self, api: str = "chat", **options: Any) -> Agent:
        """A conversation whose requests go to the replicas in turn."""
        return Agent(itertools.cycle(self.urls), api, **options)

    def seen(self, key: str, ended: Ended) -> int:
        """The trips of a conversation as the model and the program see them: results with a sentence, and an error."""
        asked = [one.asked for one in self.provider.exchanges if one.asked and one.asked.key == key]
        results = {result.id for one in asked for result in one.results if "[loopguard]" in result.text}
        return len(results) + bool(ended.error)

    def counted(self, metric: str) -> float:
        """The sum of a counter over both replicas, in what they have exported."""
        return sum(point["value"] for each in self.telemetry for point in each.points(metric))

    @property
    def all_spans(self) -> list[Any]:
        """The spans of calls, of both replicas."""
        return [span for each in self.telemetry for span in each.spans]

    def spans_of(self, *keys: str) -> list[Any]:
        """The spans of the calls of these conversations: an id of a call has the key of its own."""
        names = tuple(f"_{key}_" for key in keys)
        return [one for one in self.all_spans if any(name in call_of(one) for name in names)]

    def spans(self, count: int, **wanted: str) -> list[Any]:
        """So many spans of calls with these attributes, as soon as they have come, and no more of them."""

        def found() -> list[Any]:
            spans = self.all_spans
            return [span for span in spans if all(attributes(span).get(name) == wanted[name] for name in wanted)]

        wait_until(f"{count} spans with {wanted}", lambda: len(found()) >= count)
        assert len(found()) == count
        return found()


def call_of(span: Any) -> str:
    """The id of the call of a span."""
    return str(attributes(span)[semconv.TOOL_CALL_ID])


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
    """All that runs, for all tests of this file: a proxy takes ten seconds to start."""
    folder = tmp_path_factory.mktemp("replicas")
    (folder / "tenants.py").write_text(AUTH)
    (folder / "policy.toml").write_text(PATIENCE)
    with ExitStack() as stopping:
        server = stopping.enter_context(provider())
        store = stopping.enter_context(starting(tmp_path_factory))()
        telemetry = (stopping.enter_context(receiver()), stopping.enter_context(receiver()))
        shared = {
            "OTEL_PYTHON_LOOPGUARD_STORE": f"{store.url}?timeout={PATIENT}",
            "OTEL_PYTHON_LOOPGUARD_HASH_KEY": KEY.decode(),
            "OTEL_PYTHON_LOOPGUARD_CONFIG": str(folder / "policy.toml"),
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
        }
        general = {"custom_auth": "tenants.identify"}
        guarded = [
            Proxy(folder, server, general=general, instrumented=True, **each.environment, **shared)
            for each in telemetry
        ]
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
        assert comparable(phases["two"][given.key]) == comparable(phases[other][key])
        requests = replicas.provider.bodies(given.key), replicas.provider.bodies(key)
        assert [one.replace(given.key.encode(), key.encode()) for one in requests[0]] == requests[1] != []


def comparable(ended: Ended) -> tuple[object, ...]:
    """What is equal in two phases: the message of an error has the turn, and a busy machine drops connections."""
    return ended.runs, ended.answer, ended.error and (ended.error["kind"], ended.error["type"])


def test_each_program_ends_as_its_model_lets_it(replicas, phases):
    """Loops end with an answer, or with an error where the model calls all the same."""
    wanted = {"looping": LOOKED, "parallel": LOOKED, "stubborn": "", "working": DONE, "polling": DONE}
    for given in (job for each in jobs("two", LOOPS + WORK).values() for job in each):
        ended, (script,) = phases["two"][given.key], [name for name in wanted if name in given.key]
        assert ended.answer == wanted[script]
        assert (ended.error or {}).get("status", 0) == (400 if script == "stubborn" else 0)
    assert replicas.provider.rejected == []


def test_each_call_has_one_span_and_each_trip_one_event(replicas, phases):
    """Whichever replica read the result; the trips are what the models and the programs saw."""
    ended = {**phases["one"], **phases["two"]}
    runs = sum(len(one.runs) for one in ended.values())
    seen = sum(replicas.seen(key, one) for key, one in ended.items())
    wait_until("each call has a span", lambda: len(replicas.spans_of(*ended)) >= runs)
    spans = replicas.spans_of(*ended)
    assert len({call_of(span) for span in spans}) == len(spans) == runs
    assert sum(trips_of(span) for span in spans) == seen > 100
    assert {attributes(span)[semconv.TURN_SOURCE] for span in spans} == {"messages"}
    assert len({attributes(span)[semconv.TURN_ID] for span in spans}) == len(ended)


def trips_of(span: Any) -> int:
    """The number of trips in the events of a span."""
    return sum(event.name == semconv.EVENT_TRIP for event in span.events)


@EACH_API
def test_the_error_has_the_facts_on_each_api(replicas: Replicas, api: str) -> None:
    """The message and the fields say the same. The proxy gives another type on the messages API."""
    agent = replicas.agent(api, stream=True)
    with pytest.raises(RefusedError) as raised:
        agent.ask(f"task-stubborn1{api}: who owns it?")
    error, facts = raised.value.error, raised.value.error["provider_specific_fields"]
    assert raised.value.status == 400
    assert error["type"] == ("invalid_request_error" if api == "messages" else "tool_loop_detected")
    assert {**facts, "turn_id": ""} == {
        "error": "tool_loop_detected",
        "mode": "generic_repeat",
        "count": 10,
        "limit": 3,
        "turn_id": "",
        "turn_off": "set OTEL_PYTHON_LOOPGUARD_ACTION=observe for the proxy",
    }
    for fact in facts.values():
        assert str(fact) in error["message"]


@EACH_API
@pytest.mark.parametrize(("script", "end"), [("looping", CONCLUDED), ("working", ANSWERED), ("stubborn", ABORTED)])
def test_the_response_tells_how_the_turn_ended(replicas: Replicas, api: str, script: str, end: str) -> None:
    """In a header of a whole reply, and of the error; a reply with calls has none."""
    agent = replicas.agent(api)
    agent.entries.append(agent.wire.user(f"task-{script}8{api}: who owns it?"))
    step, ends = agent.send(), []
    with suppress(RefusedError):
        while step.calls:
            ends.append(agent.end)
            agent.take(step)
            step = agent.send()
    assert agent.end == end
    assert set(ends) == {None}


@EACH_API
def test_an_ended_turn_costs_no_request(replicas: Replicas, api: str) -> None:
    """A client that sends its list again is refused before the provider is asked; the next question is answered."""
    agent = replicas.agent(api)
    with pytest.raises(RefusedError):
        agent.ask(f"task-stubborn2{api}: who owns it?")
    asked = len(replicas.provider.exchanges)
    for _ in range(2):
        with pytest.raises(RefusedError, match="tool_loop_detected"):
            agent.send()
    assert len(replicas.provider.exchanges) == asked
    agent.entries += [{"role": "assistant", "content": "Sorry."}, {"role": "user", "content": "Then go on."}]
    agent.send()


def repeated(question: str, count: int) -> list[Any]:
    """A question and so many equal calls."""
    return looped(CHAT, count, lambda number: READ._replace(id=f"call_{number}"), question)


def test_tenants_with_equal_requests_are_judged_as_alone(replicas: Replicas) -> None:
    """Two keys, and two teams of one key, loop at once with equal messages and equal ids of calls."""
    keys = ("sk-alice", "sk-bob", "sk-bob.red", "sk-bob.blue")
    turns = []
    for step in range(10):
        for key in keys:
            agent = replicas.agent(key=key)
            agent.entries = repeated("task-stubborn3", step)
            agent.send()
    for key in keys:
        agent = replicas.agent(key=key)
        agent.entries = repeated("task-stubborn3", 10)
        with pytest.raises(RefusedError) as raised:
            agent.send()
        turns.append(raised.value.error["provider_specific_fields"]["turn_id"])
    assert len(set(turns)) == 4
    stranger = replicas.agent(key="sk-carol")
    stranger.entries = repeated("task-stubborn3", 10)[:3]
    stranger.send()


def test_retries_and_fallbacks_are_one_request(replicas: Replicas) -> None:
    """Each request goes to a model that is down first."""
    agent = replicas.agent(model=DOWN, fallbacks=[OPENAI], headers={"x-loopguard-conversation": "fallback"})
    assert agent.ask("task-looping4: who owns it?") == LOOKED
    replicas.spans(9, **{semconv.CONVERSATION_ID: "fallback"})


def test_a_request_that_a_client_sends_again_counts_once(replicas: Replicas) -> None:
    """The provider gives the same step again, and no call is counted twice."""
    agent = replicas.agent(headers={"x-loopguard-conversation": "again"})
    agent.entries.append({"role": "user", "content": "task-working5"})
    step = None
    while step is None or step.calls:
        agent.send()
        step = agent.send()
        agent.take(step)
    assert step.text == DONE
    replicas.spans(4, **{semconv.CONVERSATION_ID: "again"})


def test_spans_are_in_the_trace_of_the_agent(replicas: Replicas) -> None:
    """The agent's client sends its span's context."""
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01", "x-loopguard-conversation": "traced"}
    replicas.agent(headers=headers).ask("task-obedient7")
    for span in replicas.spans(2, **{semconv.CONVERSATION_ID: "traced"}):
        assert span.trace_id.hex() == trace_id


@EACH_API
@pytest.mark.parametrize("entries", [[], [7], [None], ["text"], [{"role": "tool", "content": 7}]], ids=str)
def test_a_malformed_request_gets_the_answer_of_the_proxy(replicas: Replicas, api: str, entries: list[Any]) -> None:
    """Whatever the guard makes of it, a fault of the guard is no answer."""
    agent = replicas.agent(api)
    agent.entries = entries
    with pytest.raises(RefusedError) as raised:
        agent.send()
    assert "loopguard" not in str(raised.value)


def test_the_metrics_are_exact(replicas: Replicas, phases: dict[str, Ends]) -> None:
    """Every call and trip of all tests is counted once, as in the spans and their events."""

    def is_exact() -> bool:
        counted = replicas.counted(semconv.METRIC_TRIPS), replicas.counted(semconv.METRIC_TOOL_CALLS)
        spans = replicas.all_spans
        return counted == (sum(map(trips_of, spans)), len(spans)) and counted[0] > 100

    wait_until("all trips and calls are exported", is_exact)
    assert replicas.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert replicas.counted(semconv.METRIC_MODEL_TOKENS) > 0


def test_a_killed_replica_stops_no_agent(replicas, phases):
    """The clients send their requests again, and the other replica goes on where the first one was.

    It is killed while each conversation waits for the provider: no client sends a request again whose response
    broke off in its body.
    """
    with ExitStack() as stopping:
        wanted = jobs("nod", (("looping", False), ("stubborn", False), ("polling", False)))
        conversations = sum(min(len(of_one), AT_ONCE) for of_one in wanted.values())
        with replicas.provider.holding(after=4):
            running = run(stopping, wanted, *replicas.urls)
            wait_until("each waits for the provider", lambda: replicas.provider.held == conversations)
            replicas.proxies[1].kill()
        ended = ends(running)
    runs = {"looping": 9, "stubborn": 10, "polling": 12}
    answers = {"looping": LOOKED, "stubborn": "", "polling": DONE}
    for key, one in ended.items():
        (script,) = (name for name in runs if name in key)
        assert (len(one.runs), one.answer) == (runs[script], answers[script]), one.error
        assert (one.error or {}).get("status", 0) == (400 if script == "stubborn" else 0)
    calls = [call_of(span) for span in replicas.spans_of(*ended)]
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
    wait_until("the failures are exported", lambda: replicas.counted(semconv.METRIC_STORE_FAILURES) > 0)
    assert replicas.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
