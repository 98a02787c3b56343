"""A consumer that writes down each call that it judged, and each trip, before it can be killed: a program for tests.

python -m tests.cli.watch.kafka_consumer BROKERS TOPIC GROUP FILE
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.kafka import KafkaSource
from otel_loopguard.cli.watch.kafka_settings import KafkaSettings
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield

from .messages import Kept

QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "2000"}


class Written(Kept):
    """A report in a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def call(self, reported: Any) -> None:
        """Write the ids of a call."""
        self._write("call", reported)

    def trip(self, reported: Any, trip: Any, first: Any) -> None:
        """Write the ids of a call that trips."""
        self._write("trip", reported)

    def _write(self, what: str, reported: Any) -> None:
        span = reported.call.span
        os.write(self._file, f"{what} {span.trace} {span.span}\n".encode())


def main(brokers: str, topic: str, group: str, path: str) -> None:
    """Consume until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    judge = LiveJudge(PolicyJudge(Policy()), Written(path), Shield(), window=2.0, turns_by="agent_span")
    KafkaSource(KafkaSettings(brokers, topic, group, QUICK), judge, list).run(stopping)
    judge.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
