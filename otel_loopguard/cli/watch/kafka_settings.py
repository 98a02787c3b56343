"""The arguments of ``otel-loopguard watch --kafka``, and the properties of the client that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

GROUP = "otel-loopguard"
_DEFAULTS = {
    "auto.offset.reset": "earliest",  # a new partition is found after its first messages are written
    # The newer protocol leaves the partitions of a consumer that was killed without one for five times as long.
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",  # a rebalance leaves the other partitions where they are
    "session.timeout.ms": "10000",
    "queued.max.messages.kbytes": "16384",
    "fetch.wait.max.ms": "100",  # a partition that is resumed waits for the fetch that was under way
    "log_level": "2",  # its log has a line for each attempt to connect, 20 a second
}
_FIXED = {
    "bootstrap.servers": "it is the first value of --kafka",
    "group.id": "it is set by --kafka-group",
    "enable.auto.commit": "an offset is committed after its spans are judged",
}


class KafkaSettings(NamedTuple):
    """A topic, and how to read it."""

    brokers: str
    topic: str
    group: str = GROUP
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
        brokers, topic = options.kafka
        return cls(brokers, topic, options.kafka_group, _parsed([*lines, *options.kafka_config]))

    def properties(self) -> dict[str, Any]:
        """Return the properties of the client. Raise if one of them has an argument of its own."""
        for name, reason in _FIXED.items():
            if name in self.config:
                msg = f"--kafka-config cannot set {name}: {reason}"
                raise LoopGuardError(msg)
        fixed = {"bootstrap.servers": self.brokers, "group.id": self.group, "enable.auto.commit": False}
        return {**_DEFAULTS, **self.config, **fixed}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch --kafka`."""
    group = parser.add_argument_group("from Kafka", "needs the package confluent-kafka: otel-loopguard[kafka]")
    group.add_argument(
        "--kafka",
        nargs=2,
        metavar=("BROKERS", "TOPIC"),
        help="judge the spans of this topic, as the collector's kafka exporter writes them with "
        "partition_traces_by_id, in otlp_proto or otlp_json; BROKERS are host:port, separated by commas",
    )
    group.add_argument(
        "--kafka-group",
        metavar="GROUP",
        default=GROUP,
        help="the consumer group; its consumers share the partitions of the topic (default: %(default)s)",
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


def _parsed(lines: Iterable[str]) -> dict[str, str]:
    """Read properties. The error does not quote the line, which may be a password."""
    properties = {}
    for line in map(str.strip, lines):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            properties[name.strip()] = value.strip()
        elif line and not line.startswith("#"):
            raise LoopGuardError("--kafka-config and each line of --kafka-config-file are NAME=VALUE")
    return properties
