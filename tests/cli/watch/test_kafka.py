"""``otel-loopguard watch --kafka``: the consumer, at a real broker."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import deque
from contextlib import ExitStack, contextmanager

import pytest

from otel_loopguard.cli.watch.kafka import KafkaSettings, KafkaSource
from otel_loopguard.errors import LoopGuardError
from tests.stack.harness.broker import Broker
from tests.stack.harness.process import free_ports, wait_until

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
    """Takes as many messages as it has room for, and judges one when the test asks it to."""

    def __init__(self, room=sys.maxsize):
        self.room = room
        self.refused = 0
        self.taken: list[bytes] = []
        self.held: deque = deque()
        self._lock = threading.Lock()

    def take(self, payload, done):
        """Hold it, if there is room."""
        with self._lock:
            if len(self.held) >= self.room:
                self.refused += 1
                return False
            self.taken.append(payload)
            self.held.append(done)
            return True

    def judge(self, count=None, *, last=False):
        """Judge the messages that were taken first, or last."""
        with self._lock:
            for _ in range(len(self.held) if count is None else count):
                (self.held.pop if last else self.held.popleft)()()

    def drain(self, seconds):
        """Judge all."""
        self.judge()
        return True


@contextmanager
def reading(broker, topic, judge):
    """Run a consumer in a thread; an exception in it fails the test."""
    settings = KafkaSettings(broker.address, topic, GROUP, config={"heartbeat.interval.ms": "300"})
    source = KafkaSource(settings, judge)
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
    judge = HeldJudge(room=5)
    broker.write(topic, payloads(0, 200), partition=1)
    with reading(broker, topic, judge):
        wait_until("it is full", lambda: judge.refused > 3)
        assert judge.taken == payloads(0, 5)
        wait_until("all are taken", lambda: judge.judge() or len(judge.taken) == 200)
        assert judge.taken == payloads(0, 200)
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


def test_a_topic_that_is_missing_is_named(broker):
    """The error has the remedy; the topic is not made."""
    with pytest.raises(LoopGuardError, match=r"topic not-there at .* create it, or name the one .* traces.topic"):
        KafkaSource(KafkaSettings(broker.address, "not-there"), HeldJudge())
    assert "not-there" not in broker.topics()


def test_a_broker_that_does_not_answer_is_named(monkeypatch):
    """The error names the address, and the settings for TLS."""
    monkeypatch.setattr("otel_loopguard.cli.watch.kafka._CONNECT_SECONDS", 0.5)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(LoopGuardError, match=rf"no Kafka broker answers at {address} .* security\.protocol"):
        KafkaSource(KafkaSettings(address, "spans"), HeldJudge())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"no.such": "1"}, r'--kafka-config: No such configuration property: "no\.such"'),
        ({"session.timeout.ms": "soon"}, r"--kafka-config: Invalid value .*session\.timeout\.ms"),
        ({"group.id": "x"}, r"--kafka-config cannot set group\.id: it is set by --kafka-group"),
        ({"enable.auto.commit": "true"}, r"cannot set enable\.auto\.commit"),
    ],
)
def test_a_wrong_property_is_named(config, message):
    """A property that the client does not know or cannot read, or that has its own argument, is an error."""
    with pytest.raises(LoopGuardError, match=message):
        KafkaSource(KafkaSettings("127.0.0.1:1", "spans", config=config), HeldJudge())


def test_a_missing_client_names_the_extra(monkeypatch):
    """Without confluent-kafka the error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(LoopGuardError, match=r"pip install 'otel-loopguard\[kafka\]'"):
        KafkaSource(KafkaSettings("127.0.0.1:1", "spans"), HeldJudge())
