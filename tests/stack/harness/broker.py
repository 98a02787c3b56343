"""A Kafka broker: one node that is its own controller, on the loopback address."""

from __future__ import annotations

import subprocess
from functools import cached_property
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # it is not in its __all__

from .process import Program, free_ports
from .programs import need

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# The default waits three seconds for more consumers of a new group.
group.initial.rebalance.delay.ms=0
# The default is six seconds; a consumer that was killed is missed after its session.
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""


class Broker(Program):
    """A broker on a free port. Each test makes topics of its own."""

    def __init__(self, folder: Path) -> None:
        self.port, controller = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the package has no hints there
        self._client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.address,
            "log_level": 0,
        }  # else it prints that the broker has ended
        self._properties = folder / "broker.properties"
        self._properties.write_text(_PROPERTIES.format(port=self.port, controller=controller, folder=folder / "broker"))
        self._java = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{need('broker')}/*")
        command = [*self._java, "kafka.Kafka", str(self._properties)]
        super().__init__(command, folder / "broker.log", {}, self.port)

    def format(self) -> None:
        """Make its folder, once; ``start`` needs it."""
        tool = ("kafka.tools.StorageTool", "format", "-t", "bG9vcGd1YXJkLXRlc3RzMQ", "-c", str(self._properties))
        subprocess.run([*self._java, *tool], check=True, capture_output=True, timeout=60)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic; returns when it can be written to."""
        admin = self._admin  # the end of the client would end the request
        (made,) = admin.create_topics([NewTopic(name, partitions, 1)]).values()
        made.result(30)

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._admin.list_topics(timeout=30).topics)

    def write(self, topic: str, payloads: Iterable[bytes], partition: int = -1) -> None:
        """Write messages; returns when the broker has them."""
        for payload in payloads:
            self._producer.produce(topic, payload, partition=partition)
        assert self._producer.flush(30) == 0

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offsets of a group, by partition; those that were never committed are left out."""
        admin = self._admin
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return {one.partition: one.offset for one in asked.result(30).topic_partitions if one.topic == topic}

    def readers(self, group: str) -> int:
        """The number of consumers of a group that have partitions."""
        admin = self._admin
        (asked,) = admin.describe_consumer_groups([group]).values()
        try:
            members = asked.result(30).members
        except KafkaException:  # the broker has just begun, and loads the groups
            return 0
        return sum(bool(one.assignment.topic_partitions) for one in members)

    def ends(self, topic: str) -> dict[int, int]:
        """The offsets after the last message, by partition; those without a message are left out."""
        admin = self._admin
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
        asked = admin.list_offsets({TopicPartition(topic, one): self._latest for one in partitions})
        found = {one.partition: answer.result(30).offset for one, answer in asked.items()}
        return {partition: end for partition, end in found.items() if end}

    @property
    def _admin(self) -> AdminClient:
        # A new one each time: one from before a restart waits for its requests to be answered.
        return AdminClient(self._client)

    @cached_property
    def _producer(self) -> Producer:
        return Producer({**self._client, "linger.ms": 0})
