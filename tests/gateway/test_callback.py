"""The guard in two real proxies of LiteLLM with one store: the requests of an agent go to both of them in turn.

They are started with ``opentelemetry-instrument``, and ``custom_auth`` names the tenants. ``test_clients.py`` has
agents in other languages, a proxy without a store, and answers compared with those of a proxy without the guard.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard import semconv
from tests.gateway.agent import APIS, Agent, RefusedError
from tests.gateway.provider import DONE, LOOKED, provider
from tests.gateway.proxy import DOWN, OPENAI, START, Proxy
from tests.stack.harness.process import wait_until
from tests.store.servers import PATIENT, starting
from tests.telemetry.otlp import Receiver, attributes, receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.server import Server
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
EACH_API = pytest.mark.parametrize("api", APIS)
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Gateway(NamedTuple):
    replicas: list[Proxy]
    provider: Server
    store: Store
    telemetry: list[Receiver]
    """Of each replica."""

    def agent(self, api: str = "chat", **options: Any) -> Agent:
        """A conversation whose requests go to the replicas in turn."""
        return Agent(itertools.cycle([one.url for one in self.replicas]), api, **options)

    @property
    def all_spans(self) -> list[Any]:
        """The spans of tool calls, of both replicas."""
        return [span for one in self.telemetry for span in one.spans]

    def counted(self, metric: str) -> float:
        """The sum of a counter, over both replicas."""
        return sum(point["value"] for one in self.telemetry for point in one.points(metric))

    def spans(self, count: int, **wanted: str) -> list[Any]:
        """So many spans of tool calls with these attributes, as soon as they have come, and no more of them."""

        def found() -> list[Any]:
            spans = self.all_spans
            return [span for span in spans if all(attributes(span).get(name) == wanted[name] for name in wanted)]

        wait_until(f"{count} spans with {wanted}", lambda: len(found()) >= count)
        assert len(found()) == count
        return found()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two proxies for all tests: they take ten seconds to start."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "tenants.py").write_text(AUTH)
    with ExitStack() as stack:
        store = stack.enter_context(starting(tmp_path_factory))()
        server, telemetry = stack.enter_context(provider()), [stack.enter_context(receiver()) for _ in range(2)]
        settings = {
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "OTEL_PYTHON_LOOPGUARD_STORE": f"{store.url}?timeout={PATIENT}",
            "OTEL_PYTHON_LOOPGUARD_HASH_KEY": "5f" * 32,
        }
        general = {"custom_auth": "tenants.identify"}
        replicas = [
            Proxy(folder, server, general=general, instrumented=True, **{**settings, **one.environment})
            for one in telemetry
        ]
        for proxy in replicas:
            stack.callback(proxy.stop)
            proxy.start()
        for proxy in replicas:
            proxy.wait_ready(START)
        yield Gateway(replicas, server, store, telemetry)


def in_conversation(name: str) -> dict[str, dict[str, str]]:
    """The header by which the spans of a test are found."""
    return {"headers": {"x-loopguard-conversation": name}}


@EACH_API
@STREAMED
def test_each_call_has_one_span(gateway: Gateway, api: str, *, stream: bool) -> None:
    """Clients are patched in this process, too: a request is read once all the same."""
    name = f"spans-{api}-{stream}"
    agent = gateway.agent(api, stream=stream, **in_conversation(name))
    assert agent.ask(f"task-looping1{api}{stream}: who owns it?") == LOOKED
    spans = [attributes(span) for span in gateway.spans(9, **{semconv.CONVERSATION_ID: name})]
    assert {span[semconv.TURN_SOURCE] for span in spans} == {"messages"}
    assert len({span[semconv.TURN_ID] for span in spans}) == 1
    assert len({span[semconv.TOOL_CALL_ID] for span in spans}) == 9


@EACH_API
def test_the_error_has_the_facts_on_each_api(gateway: Gateway, api: str) -> None:
    """The message and the fields say the same. The proxy gives another type on the messages API."""
    agent = gateway.agent(api, stream=True)
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
def test_an_ended_turn_costs_no_request(gateway: Gateway, api: str) -> None:
    """A client that sends its list again is refused before the provider is asked; the next question is answered."""
    agent = gateway.agent(api)
    with pytest.raises(RefusedError):
        agent.ask(f"task-stubborn2{api}: who owns it?")
    asked = len(gateway.provider.exchanges)
    for _ in range(2):
        with pytest.raises(RefusedError, match="tool_loop_detected"):
            agent.send()
    assert len(gateway.provider.exchanges) == asked
    agent.entries += [{"role": "assistant", "content": "Sorry."}, {"role": "user", "content": "Then go on."}]
    agent.send()


def test_tenants_with_equal_requests_are_judged_as_alone(gateway: Gateway) -> None:
    """Two keys, and two teams of one key, loop at once with equal messages and equal ids of calls."""
    keys = ("sk-alice", "sk-bob", "sk-bob.red", "sk-bob.blue")
    turns = []
    for step in range(10):
        for key in keys:
            agent = gateway.agent(key=key)
            agent.entries = conversation("task-stubborn3", step)
            agent.send()
    for key in keys:
        agent = gateway.agent(key=key)
        agent.entries = conversation("task-stubborn3", 10)
        with pytest.raises(RefusedError) as raised:
            agent.send()
        turns.append(raised.value.error["provider_specific_fields"]["turn_id"])
    assert len(set(turns)) == 4
    stranger = gateway.agent(key="sk-carol")
    stranger.entries = conversation("task-stubborn3", 10)[:3]
    stranger.send()


def conversation(question: str, calls: int) -> list[Any]:
    """A question and so many equal calls."""
    entries: list[Any] = [{"role": "user", "content": question}]
    for number in range(calls):
        function = {"name": "read_file", "arguments": '{"path": "a.txt"}'}
        written = {"id": f"call_{number}", "type": "function", "function": function}
        entries += [
            {"role": "assistant", "content": None, "tool_calls": [written]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "text"},
        ]
    return entries


def test_retries_and_fallbacks_are_one_request(gateway: Gateway) -> None:
    """Each request goes to a model that is down first."""
    agent = gateway.agent(model=DOWN, fallbacks=[OPENAI], **in_conversation("fallback"))
    assert agent.ask("task-looping4: who owns it?") == LOOKED
    gateway.spans(9, **{semconv.CONVERSATION_ID: "fallback"})


def test_a_request_that_a_client_sends_again_counts_once(gateway: Gateway) -> None:
    """The provider gives the same step again, and no call is counted twice."""
    agent = gateway.agent(**in_conversation("again"))
    agent.entries.append({"role": "user", "content": "task-working5"})
    while True:
        agent.send()
        entries, calls, text = agent.send()
        agent.entries += entries
        if not calls:
            break
        agent.entries += agent.api.results([(call_id, agent.run(name, given)) for call_id, name, given in calls])
    assert text == DONE
    gateway.spans(4, **{semconv.CONVERSATION_ID: "again"})


def test_calls_that_were_judged_in_the_agents_process_are_left_alone(gateway: Gateway) -> None:
    """The agent's own guard says so by a header; the loop is its business."""
    agent = gateway.agent(headers={"x-loopguard-judged": "1", "x-loopguard-conversation": "elsewhere"})
    assert agent.ask("task-stubborn6: who owns it?") == LOOKED
    assert len(agent.tools.runs) == 40
    gateway.spans(0, **{semconv.CONVERSATION_ID: "elsewhere"})


def test_spans_are_in_the_trace_of_the_agent(gateway: Gateway) -> None:
    """The agent's client sends its span's context."""
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01", "x-loopguard-conversation": "traced"}
    gateway.agent(headers=headers).ask("task-obedient7")
    for span in gateway.spans(2, **{semconv.CONVERSATION_ID: "traced"}):
        assert span.trace_id.hex() == trace_id


@EACH_API
@pytest.mark.parametrize("entries", [[], [7], [None], ["text"], [{"role": "tool", "content": 7}]], ids=str)
def test_a_malformed_request_gets_the_answer_of_the_proxy(gateway: Gateway, api: str, entries: list[Any]) -> None:
    """Whatever the guard makes of it, a fault of the guard is no answer."""
    agent = gateway.agent(api)
    agent.entries = entries
    with pytest.raises(RefusedError) as raised:
        agent.send()
    assert "loopguard" not in str(raised.value)


def test_many_agents_at_once_are_judged_as_alone(gateway: Gateway) -> None:
    """Half of them loop and half of them work, in three APIs, streamed and not."""

    def run(number: int) -> tuple[str, int]:
        kind = "working" if number % 2 else "looping"
        agent = gateway.agent([*APIS][number % 3], stream=number % 4 > 1, key=f"sk-{number % 5}")
        return agent.ask(f"task-{kind}8n{number}: who owns it?"), len(agent.tools.runs)

    with ThreadPoolExecutor(12) as pool:
        assert [*pool.map(run, range(24))] == [(LOOKED, 9), (DONE, 4)] * 12


def test_the_metrics_are_exact(gateway: Gateway) -> None:
    """Every trip is counted, once, as in the events of the spans."""

    def is_exact() -> bool:
        trips = sum(event.name == semconv.EVENT_TRIP for span in gateway.all_spans for event in span.events)
        counted = gateway.counted(semconv.METRIC_TRIPS), gateway.counted(semconv.METRIC_TOOL_CALLS)
        return counted == (trips, len(gateway.all_spans)) and trips > 100

    wait_until("all trips and calls are exported", is_exact)
    assert gateway.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert gateway.counted(semconv.METRIC_MODEL_TOKENS) > 0


def steps(agent: Agent, count: int) -> None:
    """Make so many steps of a conversation."""
    for _ in range(count):
        entries, calls, _ = agent.send()
        agent.entries += [*entries, *agent.api.results([(one, agent.run(name, given)) for one, name, given in calls])]


def test_an_agent_goes_on_when_a_replica_is_killed(gateway: Gateway) -> None:
    """The other one has all of the turn from the store and the request: the loop ends at the same call."""
    agent = gateway.agent()
    agent.entries.append({"role": "user", "content": "task-stubborn9"})
    steps(agent, 5)
    gateway.replicas[0].kill()
    agent.urls = itertools.repeat(gateway.replicas[1].url)
    steps(agent, 5)
    with pytest.raises(RefusedError, match="count 10"):
        agent.send()


def test_an_agent_goes_on_when_the_store_is_killed(gateway: Gateway) -> None:
    """The replica judges by itself, also a turn that began in the store, and its failures are counted."""
    agent = gateway.agent("messages", stream=True)
    agent.urls = itertools.repeat(gateway.replicas[1].url)
    agent.entries.append({"role": "user", "content": "task-stubborn10"})
    steps(agent, 5)
    gateway.store.kill()
    steps(agent, 5)
    with pytest.raises(RefusedError, match="count 10"):
        agent.send()
    wait_until("the failures are exported", lambda: gateway.counted(semconv.METRIC_STORE_FAILURES) > 0)
    assert gateway.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
