"""Read OTLP spans from a Kafka topic, as one consumer of a group: ``otel-loopguard watch --kafka BROKERS TOPIC``.

An offset is committed once all spans of the messages before it are judged. So the last messages of a consumer that was
killed are read again by another one, and no message is left out. Messages that the judge has no room for wait here, and
their partitions are paused.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.watch.budget import TooLargeError
from otel_loopguard.cli.watch.live import MalformedError
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import Event

    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

    from otel_loopguard.cli.watch.kafka_settings import KafkaSettings
    from otel_loopguard.cli.watch.live import LiveJudge

logger = logging.getLogger("otel_loopguard")

COMMIT_SECONDS = 2.0
FLUSH_SECONDS = 10.0
"""The longest wait for the judge before partitions are given away. Other consumers judge the rest."""
_POLL_SECONDS = 0.1
_CONNECT_SECONDS = 10.0
_MALFORMED = "malformed"
_MISSING = "reading from Kafka needs the package confluent-kafka: pip install 'otel-loopguard[kafka]'"


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
    """Hands the messages of a topic to the judge, and commits them after it. All its methods run in one thread.

    ``export`` is called before each commit, so that a trip is exported before its message can be skipped.
    """

    def __init__(self, settings: KafkaSettings, judge: LiveJudge, export: Callable[[], object]) -> None:
        self._settings, self._judge, self._export = settings, judge, export
        self._partitions: dict[int, _Partition] = {}
        self._waiting: deque[_Waiting] = deque()
        self._is_paused = False
        self._done: SimpleQueue[tuple[_Partition, int]] = SimpleQueue()
        """Filled by the thread of the judge."""
        self._commit_at = 0.0
        self._logged: set[object] = set()
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
            self._read(message)
        self._hand_in()
        if monotonic() >= self._commit_at:
            self._commit(self._partitions)
            self._commit_at = monotonic() + COMMIT_SECONDS

    def _read(self, message: Message) -> None:
        number, offset = message.partition(), message.offset()
        if number not in self._partitions or offset is None:
            return
        self._logged &= {_MALFORMED}
        self._waiting.append(_Waiting(number, offset, message.value() or b""))
        if self._is_paused:  # it was assigned after the pause
            self._consumer.pause(self._named({number: None}))

    def _hand_in(self) -> None:
        """Hand the messages that wait to the judge, in order. If it is full, pause until half of its queue is judged.

        A pause is expensive: the client throws away what it has fetched.
        """
        if self._is_paused and self._judge.budget.used > self._judge.budget.most // 2:
            return
        while self._waiting:
            if not self._is_taken(*self._waiting[0]):
                if not self._is_paused:
                    self._is_paused = True
                    self._consumer.pause(self._consumer.assignment())
                return
            self._waiting.popleft()
        if self._is_paused:
            self._is_paused = False
            self._consumer.resume(self._consumer.assignment())

    def _is_taken(self, number: int, offset: int, payload: bytes) -> bool:
        state = self._partitions[number]
        state.open[offset] = None  # before it is taken, as it may be judged at once
        try:
            is_json = payload.startswith(b"{")  # no protobuf message of this kind does
            if not self._judge.take(payload, partial(self._done.put, (state, offset)), is_json=is_json):
                del state.open[offset]
                return False
        except (MalformedError, TooLargeError) as error:
            del state.open[offset]
            self._warn(_MALFORMED, "a message of the topic is left out: %s", error)
        state.next = offset + 1
        return True

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
        self._export()
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
        self._judge.moved()
        for one in partitions:
            self._partitions[one.partition] = _Partition()

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Judge and commit what was taken, before the partitions go to another consumer."""
        numbers = [one.partition for one in partitions if one.partition in self._partitions]
        if any(self._partitions[number].open for number in numbers):
            self._judge.flush(FLUSH_SECONDS)
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
        brokers, topic = self._settings.brokers, self._settings.topic
        properties = {**self._settings.properties(), "error_cb": self._report, "on_commit": self._on_commit}
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
        """Log an error. The client goes on by itself unless it is fatal."""
        if error.fatal():
            msg = f"Kafka ended this consumer: {error.str()}"
            raise LoopGuardError(msg)
        self._warn(error.code(), "%s; reading goes on by itself as soon as it can", error.str())

    def _warn(self, kind: object, message: str, *arguments: object) -> None:
        """Log a warning, each kind once an outage, and one about messages once."""
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning(f"Kafka: {message}", *arguments)

    def _named(self, offsets: Mapping[int, int | None]) -> list[TopicPartition]:
        """Return the client's form of partitions and their offsets."""
        from confluent_kafka import OFFSET_INVALID, TopicPartition  # noqa: PLC0415 - an extra

        return [
            TopicPartition(self._settings.topic, number, OFFSET_INVALID if offset is None else offset)
            for number, offset in offsets.items()
        ]
