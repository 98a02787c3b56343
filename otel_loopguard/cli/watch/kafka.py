"""Read OTLP spans from a Kafka topic, as one consumer of a group: ``otel-loopguard watch --kafka BROKERS TOPIC``.

An offset is committed once all spans of the messages before it are judged. So the last messages of a consumer that was
killed are read again by another one, and no message is left out. Messages that the judge has no room for wait here, and
their partitions are paused.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping
    from threading import Event

    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

logger = logging.getLogger("otel_loopguard")

GROUP = "otel-loopguard"
PROTO, JSON = ENCODINGS = ("otlp_proto", "otlp_json")
COMMIT_SECONDS = 1.0
DRAIN_SECONDS = 10.0
"""The longest wait for the judge before partitions are given away. What it has not judged then is read again."""
_POLL_SECONDS = 0.1
_CONNECT_SECONDS = 10.0
_MISSING = "reading from Kafka needs the package confluent-kafka: pip install 'otel-loopguard[kafka]'"
_DEFAULTS = {
    "auto.offset.reset": "earliest",  # a new partition is found after its first messages are written
    # The newer protocol takes five times as long to give away the partitions of a consumer that was killed.
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",  # a rebalance leaves the other partitions where they are
    "session.timeout.ms": "10000",
    "queued.max.messages.kbytes": "16384",
    "log_level": "2",  # its log has a line for each attempt to connect, 20 a second; _report has one an outage
    "fetch.wait.max.ms": "100",  # a partition that is resumed waits for the fetch that was under way
}
_FIXED = {"bootstrap.servers": "BROKERS", "group.id": "--kafka-group", "enable.auto.commit": "nothing else"}
"""Properties that have an argument of their own."""


class Judge(Protocol):
    """The judge of spans, as this file needs it."""

    def take(self, payload: bytes, done: Callable[[], None]) -> bool:
        """Take a serialised TracesData, or return False if there is no room. Calls `done` once all spans are judged."""

    def drain(self, seconds: float) -> bool:
        """Judge everything that was taken; return False if that takes longer."""


class KafkaSettings(NamedTuple):
    """The arguments of the command."""

    brokers: str
    topic: str
    group: str = GROUP
    encoding: str = PROTO
    config: Mapping[str, str] = {}
    """More properties of the client, such as those for TLS."""

    @classmethod
    def of(cls, options: argparse.Namespace) -> KafkaSettings:
        """Read the arguments that `configure` adds."""
        lines: list[str] = []
        if options.kafka_config_file:
            try:
                lines = options.kafka_config_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                msg = f"--kafka-config-file {options.kafka_config_file} cannot be read: {error}"
                raise LoopGuardError(msg) from None
        config = {}
        for line in (*lines, *options.kafka_config):
            name, equals, value = line.partition("=")
            if equals:
                config[name.strip()] = value.strip()
            elif line.strip() and not line.lstrip().startswith("#"):
                raise LoopGuardError("--kafka-config and the lines of --kafka-config-file are NAME=VALUE")
        return cls(*options.kafka, options.kafka_group, options.kafka_encoding, config)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch --kafka`."""
    group = parser.add_argument_group("from Kafka", "needs the package confluent-kafka: otel-loopguard[kafka]")
    group.add_argument(
        "--kafka",
        nargs=2,
        metavar=("BROKERS", "TOPIC"),
        help="judge the spans of this topic, as the collector's kafka exporter writes them with partition_traces_by_id; "
        "BROKERS are host:port, separated by commas",
    )
    group.add_argument(
        "--kafka-group",
        metavar="GROUP",
        default=GROUP,
        help="the consumer group: its consumers share the partitions (default: %(default)s)",
    )
    group.add_argument(
        "--kafka-encoding", choices=ENCODINGS, default=PROTO, help="that of the exporter (default: %(default)s)"
    )
    group.add_argument(
        "--kafka-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property of librdkafka, such as security.protocol=SSL; may be given several times",
    )
    group.add_argument(
        "--kafka-config-file",
        metavar="FILE",
        type=Path,
        help="a file with such properties, one a line: passwords are not for command lines",
    )


class _Partition:
    """The offsets of a partition that were taken and are not judged yet, in order, and the committed one."""

    __slots__ = ("committed", "next", "open")

    def __init__(self) -> None:
        self.open: dict[int, None] = {}
        self.next: int | None = None
        self.committed: int | None = None

    @property
    def judged(self) -> int | None:
        """The offset before which all spans are judged; None if no message was taken."""
        return next(iter(self.open), self.next)


class _Waiting(NamedTuple):
    """A message that the judge had no room for."""

    partition: int
    offset: int
    payload: bytes


class KafkaSource:
    """Hands the messages of a topic to the judge, and commits them after it. All its methods run in one thread."""

    def __init__(self, settings: KafkaSettings, judge: Judge) -> None:
        self._settings, self._judge = settings, judge
        self._partitions: dict[int, _Partition] = {}
        self._waiting: deque[_Waiting] = deque()
        self._resume_at: int | None = None
        """While partitions are paused: the number of open messages at which they are resumed."""
        self._done: SimpleQueue[tuple[_Partition, int]] = SimpleQueue()
        """Filled by the threads of the judge."""
        self._commit_at = 0.0
        self._logged: set[int] = set()
        self._consumer = self._connect()

    def run(self, stopping: Event) -> None:
        """Read until ``stopping`` is set; then judge and commit what was taken, and leave the group."""
        topic = self._settings.topic
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        try:
            while not stopping.is_set():
                self._step()
        finally:
            self._consumer.close()  # calls _on_revoke

    # --- read ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        message = self._consumer.poll(_POLL_SECONDS)
        if message is not None and (error := message.error()) is not None:
            self._report(error)
        elif message is not None:
            self._logged.clear()
            self._read(message)
        self._hand_in()
        if monotonic() >= self._commit_at:
            self._commit(self._partitions)
            self._commit_at = monotonic() + COMMIT_SECONDS

    def _read(self, message: Message) -> None:
        number, offset, value = message.partition(), message.offset(), message.value()
        if number not in self._partitions or offset is None or value is None:
            return
        self._waiting.append(_Waiting(number, offset, value))
        if self._resume_at is not None:  # it was assigned in the meantime
            self._consumer.pause(self._named({number: None}))

    def _hand_in(self) -> None:
        """Hand what waits to the judge in order. If it has no room, pause; go on when half of its work is done."""
        while self._waiting:
            number, offset, payload = self._waiting[0]
            state = self._partitions[number]
            # Before it is taken: the judge may be done with it at once.
            state.open[offset] = None
            if not self._judge.take(payload, partial(self._done.put, (state, offset))):
                del state.open[offset]
                self._pause()
                return
            state.next = offset + 1
            self._waiting.popleft()
        self._collect()
        if self._resume_at is not None and self._open <= self._resume_at:
            self._resume_at = None
            self._consumer.resume(self._consumer.assignment())

    @property
    def _open(self) -> int:
        return sum(len(one.open) for one in self._partitions.values())

    def _pause(self) -> None:
        """Pause all partitions. The client throws away what it has fetched, so this must not happen at each message."""
        self._collect()
        if self._resume_at is None:
            self._resume_at = self._open // 2
            self._consumer.pause(self._consumer.assignment())

    # --- commit --------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        while True:
            try:
                state, offset = self._done.get_nowait()
            except Empty:
                return
            state.open.pop(offset, None)

    def _commit(self, numbers: Iterable[int], *, wait: bool = False) -> None:
        """Commit what is judged of these partitions."""
        self._collect()
        offsets = {
            number: state.judged
            for number in numbers
            if (state := self._partitions[number]).judged not in (None, state.committed)
        }
        if not offsets:
            return
        for number, offset in offsets.items():
            self._partitions[number].committed = offset
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        named = self._named(offsets)
        try:
            # Two calls, because the client's types have one for each.
            if wait:
                self._consumer.commit(offsets=named, asynchronous=False)
            else:
                self._consumer.commit(offsets=named)
        except KafkaException as error:
            self._on_commit(error.args[0], named)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Have failed commits made again. They fail at each rebalance, also in a consumer that keeps its partitions."""
        for one in partitions:
            if (error or one.error) and one.partition in self._partitions:
                self._partitions[one.partition].committed = None
        if error:
            logger.debug("Kafka did not take a commit, it is made again: %s", error)

    # --- rebalance -----------------------------------------------------------------------------------------------

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._partitions[one.partition] = _Partition()

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Judge and commit what was taken, before the partitions go to another consumer."""
        numbers = [one.partition for one in partitions if one.partition in self._partitions]
        if any(self._partitions[number].open for number in numbers):
            self._judge.drain(DRAIN_SECONDS)
        self._commit(numbers, wait=True)
        self._on_lost(_, partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Forget partitions that another consumer has already."""
        for one in partitions:
            self._partitions.pop(one.partition, None)
        self._waiting = deque(one for one in self._waiting if one.partition in self._partitions)

    # --- the client ----------------------------------------------------------------------------------------------

    def _connect(self) -> Consumer:
        try:
            from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 - an extra
        except ImportError:
            raise LoopGuardError(_MISSING) from None
        brokers, topic, group, _, config = self._settings
        for name, argument in _FIXED.items():
            if name in config:
                msg = f"--kafka-config cannot set {name}: it is set by {argument}"
                raise LoopGuardError(msg)
        properties: dict[str, Any] = {
            **_DEFAULTS,
            **config,
            "bootstrap.servers": brokers,
            "group.id": group,
            "enable.auto.commit": False,
            "error_cb": self._report,
            "on_commit": self._on_commit,
        }
        try:
            consumer = Consumer(properties, logger=logger)
        except KafkaException as error:
            msg = f"--kafka-config: {error.args[0].str()}; the properties are those of librdkafka"
            raise LoopGuardError(msg) from None
        try:
            found = consumer.list_topics(topic, timeout=_CONNECT_SECONDS).topics[topic].error
        except KafkaException as error:
            consumer.close()
            msg = (
                f"no Kafka broker answers at {brokers} ({error.args[0].str()}): check the address; a cluster with "
                "TLS or SASL needs --kafka-config security.protocol=SSL or SASL_SSL and its properties"
            )
            raise LoopGuardError(msg) from None
        if found is not None:
            consumer.close()
            msg = (
                f"the topic {topic} at {brokers} cannot be read ({found.str()}): create it, or name the one in the "
                "setting traces.topic of the collector's kafka exporter"
            )
            raise LoopGuardError(msg)
        return consumer

    def _report(self, error: KafkaError) -> None:
        """Log an error, each kind once until a message is read. The client goes on by itself unless it is fatal."""
        if error.fatal():
            msg = f"Kafka ended this consumer: {error.str()}"
            raise LoopGuardError(msg)
        if error.code() not in self._logged:
            self._logged.add(error.code())
            logger.warning("Kafka: %s. Reading goes on by itself as soon as it can.", error.str())

    def _named(self, offsets: Mapping[int, int | None]) -> list[TopicPartition]:
        """Return the client's form of partitions and their offsets."""
        from confluent_kafka import OFFSET_INVALID, TopicPartition  # noqa: PLC0415 - an extra

        return [
            TopicPartition(self._settings.topic, number, OFFSET_INVALID if offset is None else offset)
            for number, offset in offsets.items()
        ]
