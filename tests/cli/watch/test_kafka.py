"""``otel-loopguard watch --kafka``: the consumer, at a real broker."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import uuid
from collections import Counter, deque
from contextlib import ExitStack, contextmanager

import pytest

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.kafka import KafkaSource
from otel_loopguard.cli.watch.kafka_settings import KafkaSettings
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.shield import Shield
from tests.cli.processes import command
from tests.stack.harness.broker import Broker
from tests.stack.harness.process import Program, free_ports, wait_until
from tests.stack.harness.programs import ROOT

from .messages import Kept, as_json, call, message

GROUP = "watch"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One broker for all tests of this file; each has topics of its own."""
    running = Broker(tmp_path_factory.mktemp("broker"))
    with ExitStack() as stopping:
        stopping.callback(running.stop)
        running.format()
        running.start()
        running.wait_ready()
        yield running


@pytest.fixture
def topic(broker):
    """A new topic with four partitions."""
    name = f"spans-{uuid.uuid4().hex}"
    broker.make_topic(name, partitions=4)
    return name


class HeldJudge:
    """Takes as many bytes as it has room for, and judges a message when the test asks it to."""

    def __init__(self, room=sys.maxsize):
        self.budget = self
        self.most = room
        self.refused = 0
        self.taken: list[bytes] = []
        self.held: deque = deque()
        self._lock = threading.Lock()

    @property
    def used(self):
        """The bytes that it holds."""
        return sum(size for size, _ in self.held)

    def take(self, payload, done, *, is_json):
        """Hold it, if there is room."""
        with self._lock:
            if self.used + len(payload) > self.most:
                self.refused += 1
                return False
            self.taken.append(payload)
            self.held.append((len(payload), done))
            return True

    def judge(self, count=None, *, last=False):
        """Judge the messages that were taken first, or last."""
        with self._lock:
            for _ in range(len(self.held) if count is None else count):
                (self.held.pop if last else self.held.popleft)()[1]()

    def moved(self):
        """Do nothing: it remembers nothing."""

    def flush(self, seconds):
        """Judge all."""
        self.judge()
        return True


@contextmanager
def reading(broker, topic, judge, export=list):
    """Run a consumer in a thread; an exception in it fails the test."""
    settings = KafkaSettings(broker.address, topic, GROUP, config={"heartbeat.interval.ms": "300"})
    source = KafkaSource(settings, judge, export)
    stopping, raised = threading.Event(), []

    def run():
        try:
            source.run(stopping)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
        assert thread.is_alive(), raised
    finally:
        stopping.set()
        thread.join(30)
    assert not thread.is_alive()
    assert raised == []


def payloads(first, last):
    return [b"%d" % number for number in range(first, last)]


def test_an_offset_is_committed_after_all_messages_up_to_it_are_judged(broker, topic):
    """Messages that are judged out of order are not committed before the ones in front of them."""
    judge = HeldJudge()
    broker.write(topic, payloads(0, 4), partition=0)
    with reading(broker, topic, judge):
        wait_until("all are taken", lambda: len(judge.taken) == 4)
        judge.judge(2, last=True)
        judge.judge(1)
        wait_until("the first is committed", lambda: broker.committed(GROUP, topic) == {0: 1})
        judge.judge(1)
        wait_until("all are committed", lambda: broker.committed(GROUP, topic) == {0: 4})


def test_a_full_judge_pauses_the_topic_and_loses_nothing(broker, topic):
    """Messages wait in the broker until there is room, and come in their order."""
    sent = [b"%020d" % number for number in range(200)]
    judge = HeldJudge(room=50 * 20)
    broker.write(topic, sent, partition=1)
    with reading(broker, topic, judge):
        wait_until("it is full", lambda: judge.refused)
        judge.judge(20)
        assert judge.taken == sent[:50]  # it waits for more room than that
        wait_until("all are taken", lambda: judge.judge() or len(judge.taken) == 200)
        assert judge.taken == sent
        assert judge.refused <= 4  # it was asked once a pause
        wait_until("all are committed", lambda: judge.judge() or broker.committed(GROUP, topic) == {1: 200})


def test_the_end_judges_and_commits_what_was_taken(broker, topic):
    """A consumer that ends leaves no message to be read again, and gives its partitions away at once."""
    first, second = HeldJudge(), HeldJudge()
    broker.write(topic, payloads(0, 10), partition=2)
    with reading(broker, topic, first):
        wait_until("all are taken", lambda: len(first.taken) == 10)
        assert broker.committed(GROUP, topic) == {}
    assert broker.committed(GROUP, topic) == {2: 10}
    with reading(broker, topic, second):
        broker.write(topic, [b"next"], partition=2)
        wait_until("the next is taken", lambda: second.taken == [b"next"], seconds=5)


def test_a_rebalance_ends_no_consumer_and_gives_judged_messages_away_once(broker, topic):
    """Consumers come and go under load: each message is judged before its partition is given away, and none twice."""
    judges = [HeldJudge() for _ in range(3)]
    written = 0

    def write():
        nonlocal written
        for partition in range(4):
            broker.write(topic, payloads(written, written + 25), partition=partition)
            written += 25

    def taken():
        return sorted((payload for one in judges for payload in one.taken), key=int)

    with reading(broker, topic, judges[0]):
        for newcomer in judges[1:]:
            write()
            with reading(broker, topic, newcomer):
                wait_until("it gets its share", lambda: write() or newcomer.taken)  # noqa: B023 - used in this round
            write()
        wait_until("all are taken", lambda: len(set(taken())) == written)
    assert taken() == payloads(0, written)


class Consumer(Program):
    """A process that consumes a topic, and the file with what it judged."""

    def __init__(self, folder, name, broker, topic):
        self.file = folder / name
        self.file.touch()
        command = [sys.executable, "-m", "tests.cli.watch.kafka_consumer", broker.address, topic, GROUP, str(self.file)]
        super().__init__(command, folder / f"{name}.log", {**os.environ, "PYTHONPATH": str(ROOT)}, broker.port)

    def ids(self, what):
        """The traces and spans of its calls or trips, in order."""
        lines = [line.split() for line in self.file.read_text().splitlines()]
        return [(trace, span) for each, trace, span in lines if each == what]


def test_a_consumer_that_is_killed_loses_no_span_and_repeats_only_what_it_had_not_committed(broker, topic, tmp_path):
    """Each message is sent twice, as by an exporter that got no answer, and no consumer judges a span of it twice."""
    killed, survivor = (Consumer(tmp_path, name, broker, topic) for name in ("killed", "survivor"))
    sent: dict[int, list[tuple[str, str]]] = {partition: [] for partition in range(4)}
    numbers = itertools.count(1)

    def send():
        number = next(numbers)
        for trace in range(1, 41):
            one, partition = call(number, trace=trace), trace % 4
            broker.write(topic, [message(one).SerializeToString()] * 2, partition=partition)
            sent[partition] += [(one.trace_id.hex(), one.span_id.hex())] * 2

    def have_judged(count):
        return min(len(each.ids("call")) for each in (killed, survivor)) > count

    with ExitStack() as stopping:
        for each in (killed, survivor):
            stopping.callback(each.stop)
            each.start()
        wait_until("both have judged some", lambda: send() or have_judged(200))
        wait_until("all have a commit", lambda: send() or len(broker.committed(GROUP, topic)) == 4)
        killed.kill()
        before = broker.committed(GROUP, topic)
        open_then = {one for partition, ids in sent.items() for one in ids[before[partition] :]}
        for _ in range(10):
            send()
        everything = {one for ids in sent.values() for one in ids}
        wait_until("all are judged", lambda: everything == {*killed.ids("call"), *survivor.ids("call")})
        wait_until(
            "all are committed", lambda: sum(broker.committed(GROUP, topic).values()) == sum(map(len, sent.values()))
        )
    for each in (killed, survivor):
        assert len(set(each.ids("call"))) == len(each.ids("call"))
        # The traces that were taken over have no history there: the first call trips nothing.
        calls, trips = (Counter(trace for trace, _ in each.ids(what)) for what in ("call", "trip"))
        assert trips == {trace: count - 1 for trace, count in calls.items() if count > 1}
    assert set(killed.ids("call")) & set(survivor.ids("call")) <= open_then


def test_trips_are_exported_before_their_messages_are_committed(broker, topic):
    """A consumer that is killed after its commit has lost no trip."""
    judge, committed = HeldJudge(), []
    broker.write(topic, payloads(0, 3), partition=3)
    with reading(broker, topic, judge, export=lambda: committed.append(broker.committed(GROUP, topic))):
        wait_until("all are taken", lambda: len(judge.taken) == 3)
        judge.judge()
        wait_until("all are committed", lambda: broker.committed(GROUP, topic) == {3: 3})
    assert committed[0] == {}


def test_both_encodings_are_judged_and_a_broken_message_is_left_out(broker, topic, caplog):
    """A message that is no OTLP neither ends the consumer nor keeps those after it from being committed."""
    loop = [message(call(number)) for number in range(1, 9)]
    as_sent = [one.SerializeToString() for one in loop[:4]] + [json.dumps(as_json(one)).encode() for one in loop[4:]]
    broker.write(topic, [*as_sent[:5], b"no OTLP", b"", *as_sent[5:], b"{"], partition=0)
    kept = Kept()
    judge = LiveJudge(PolicyJudge(Policy()), kept, Shield(), window=0.1, turns_by="agent_span")
    with reading(broker, topic, judge):
        wait_until("all are committed", lambda: broker.committed(GROUP, topic) == {0: 11})
    judge.close()
    assert [trip.call for trip in kept.trips] == list(range(1, 8))
    assert kept.refusals == {"malformed": 2}
    assert [one.getMessage() for one in caplog.records] == [
        "Kafka: a message of the topic is left out: the message is no OTLP: DecodeError"
    ]


def test_a_topic_that_is_missing_is_named(broker):
    """The error has the remedy; the topic is not made."""
    with pytest.raises(LoopGuardError, match=r"topic not-there at .* create it, or name the one .* traces.topic"):
        KafkaSource(KafkaSettings(broker.address, "not-there"), HeldJudge(), list)
    assert "not-there" not in broker.topics()


def test_a_broker_that_does_not_answer_is_named(monkeypatch):
    """The error names the address, and the settings for TLS."""
    monkeypatch.setattr("otel_loopguard.cli.watch.kafka._CONNECT_SECONDS", 0.5)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(LoopGuardError, match=rf"no Kafka broker answers at {address} .* security\.protocol"):
        KafkaSource(KafkaSettings(address, "spans"), HeldJudge(), list)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"no.such": "1"}, r'--kafka-config: No such configuration property: "no\.such"'),
        ({"session.timeout.ms": "soon"}, r"--kafka-config: Invalid value .*session\.timeout\.ms"),
    ],
)
def test_a_property_that_the_client_refuses_is_named(config, complaint):
    """A name that it does not know, or a value that it cannot read, is an error before anything is read."""
    with pytest.raises(LoopGuardError, match=complaint):
        KafkaSource(KafkaSettings("127.0.0.1:1", "spans", config=config), HeldJudge(), list)


def test_a_missing_client_names_the_extra(monkeypatch):
    """Without confluent-kafka the error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(LoopGuardError, match=r"pip install 'otel-loopguard\[kafka\]'"):
        KafkaSource(KafkaSettings("127.0.0.1:1", "spans"), HeldJudge(), list)


def test_the_command_ends_with_the_error_before_it_reads(broker):
    """The status is that of wrong use, and there is no traceback."""
    missing = command("watch", "--kafka", broker.address, "not-there")
    assert missing.returncode == 2
    assert "the topic not-there" in missing.stderr
    assert "Traceback" not in missing.stderr
    more = {"OTEL_PYTHON_LOOPGUARD_STORE": "redis://127.0.0.1:1"}
    without_key = command("watch", "--kafka", broker.address, "not-there", more=more)
    assert without_key.returncode == 2
    assert "a shared store needs the same key in all processes" in without_key.stderr
