"""``otel-loopguard watch --otlp :4317``: judge the spans of other programs as they come, until a signal ends it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import ExitStack
from threading import Event
from time import sleep
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from otel_loopguard.cli.output import counted
from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.policy_files.load import preset_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import FrameType

    from otel_loopguard.cli.watch.live import LiveJudge
    from otel_loopguard.cli.watch.report import WatchReport
    from otel_loopguard.engine.policy.policy import Policy

WINDOW = 10.0
QUEUE_MB = 64
_MOST_SECONDS = 3_600.0
_POLL_SECONDS = 0.2
_TURNS = {"conversation": "conversation", "agent": "agent_span", "trace": "trace"}
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not listened at


class Receiver(Protocol):
    """Takes messages from elsewhere, and hands them to the live judge."""

    @property
    def address(self) -> ListenAddress:
        """The address that it listens at."""

    def start(self) -> None:
        """Take messages from now on."""

    def stop(self) -> None:
        """Take no more messages. Return when those that were being taken are answered."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch --otlp`."""
    group = parser.add_argument_group(
        "spans of other programs",
        "Receives the spans of programs in any language from a collector, judges their tool calls as they come, and "
        "exports trips as metrics and logs by OTLP (OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of the SDK).",
    )
    group.add_argument(
        "--otlp",
        metavar="[HOST]:PORT",
        type=_address,
        help="receive OTLP by gRPC; such as :4317, of this machine only, or 0.0.0.0:4317",
    )
    group.add_argument(
        "--otlp-http",
        metavar="[HOST]:PORT",
        type=_address,
        help="receive OTLP by HTTP, protobuf and JSON, plain and gzip, at /v1/traces; such as :4318 or 0.0.0.0:4318",
    )
    group.add_argument(
        "--window",
        metavar="SECONDS",
        type=_seconds,
        default=WINDOW,
        help="the time that a span waits for others that began before it; later ones are judged out of order "
        "(default: 10)",
    )
    group.add_argument(
        "--turns",
        choices=list(_TURNS),
        default="conversation",
        help="the widest turn: the calls of one conversation, else of one span of an agent's run, else of one trace "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--queue",
        metavar="MB",
        type=_megabytes,
        default=QUEUE_MB << 20,
        help="the memory of all messages that are read or wait; more are refused, so that the collector keeps them "
        "(default: 64)",
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument("--preset", metavar="NAME", help=f"judge with this preset: {', '.join(preset_names())}")
    which.add_argument(
        "--policy", metavar="FILE", help="judge with this policy file; default: the environment's policy"
    )


def is_wanted(options: argparse.Namespace) -> bool:
    """Return True if spans of other programs are to be judged."""
    return options.otlp is not None or options.otlp_http is not None


def run(options: argparse.Namespace) -> int:
    """Receive and judge until SIGTERM or SIGINT; then judge what was taken, and export it."""
    if options.command:
        raise LoopGuardError("`watch` either runs a program (-- COMMAND) or receives spans (--otlp); not both")
    policy = _policy(options.preset, options.policy)
    _check_endpoints(os.environ, [one for one in (options.otlp, options.otlp_http) if one is not None])
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.replay.judge import PolicyJudge  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.exports import exports  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.live import LiveJudge  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.report import WatchReport  # noqa: PLC0415 - see above
    from otel_loopguard.shield import Shield  # noqa: PLC0415 - see above
    from otel_loopguard.telemetry.settings import Settings  # noqa: PLC0415 - see above

    judge = PolicyJudge(policy)
    with ExitStack() as closing:
        outlet = exports(os.environ, Shield())
        closing.callback(outlet.close)
        report = WatchReport(judge, outlet, Settings.from_environment(os.environ))
        live = LiveJudge(
            judge,
            report,
            report.shield,
            window=options.window,
            turns_by=_TURNS[options.turns],
            most_bytes=options.queue,
        )
        closing.callback(live.close)
        report.watch(live)
        receivers = list(_receivers(options, live))
        stopping = _signals()
        outlet.start()
        for one in receivers:
            one.start()
            closing.callback(one.stop)
        _print_start(receivers, options)
        # Not ``stopping.wait()``: a handler that interrupts it waits for its lock, and a signal that another thread of
        # the process gets does not end it.
        while not stopping.is_set():
            sleep(_POLL_SECONDS)
    _print_end(report)
    return 0


def _receivers(options: argparse.Namespace, live: LiveJudge) -> Iterable[Receiver]:
    if options.otlp is not None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its faults come as exceptions, too
        from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver  # noqa: PLC0415 - imports grpc

        yield GrpcReceiver(options.otlp, live)
    if options.otlp_http is not None:
        from otel_loopguard.cli.watch.http_receiver import HttpReceiver  # noqa: PLC0415 - as its imports

        yield HttpReceiver(options.otlp_http, live)


def _signals() -> Event:
    """Return the event that the first SIGTERM or SIGINT sets. The second one ends the process at once."""
    stopping = Event()

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping


def _print_start(receivers: Iterable[Receiver], options: argparse.Namespace) -> None:
    for one in receivers:
        if one.address.is_everywhere:
            print(
                f"otel-loopguard: warning: {one.address} is open at all addresses of this machine, and asks nobody who "
                f"they are: anyone who reaches it may send spans. For this machine only: :{one.address.port}",
                file=sys.stderr,
            )
    places = [f"by {type(one).__name__.removesuffix('Receiver').upper()} at {one.address}" for one in receivers]
    print(
        f"otel-loopguard: receiving OTLP {' and '.join(places)}. Turns by {options.turns}; a span waits "
        f"{options.window:g} s for others. Ctrl-C ends.",
        file=sys.stderr,
        flush=True,
    )


def _print_end(report: WatchReport) -> None:
    print(
        f"otel-loopguard: {counted(report.calls, 'tool call')}, {counted(report.loops, 'turn')} with a loop, "
        f"{counted(report.trips, 'trip')}.",
        file=sys.stderr,
    )


def _policy(preset: str | None, file: str | None) -> Policy:
    from otel_loopguard.cli.policy import chosen_policy  # noqa: PLC0415 - `--help` does not need it

    return chosen_policy(preset, file).checked(preset or file or "environment")


def _check_endpoints(environ: Mapping[str, str], own: Iterable[ListenAddress]) -> None:
    """Raise an error if the exporters would send to this watcher, as they do by default if it has their port."""
    ports = {address.port for address in own}
    for signal_ in ("METRICS", "LOGS"):
        if environ.get(f"OTEL_{signal_}_EXPORTER", "otlp") != "otlp":
            continue
        protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal_}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        default = "http://localhost:4318" if protocol == "http/protobuf" else "http://localhost:4317"
        given = environ.get(f"OTEL_EXPORTER_OTLP_{signal_}_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        parts = urlsplit(given if given and "://" in given else f"http://{given}" if given else default)
        if parts.hostname in _LOCAL and parts.port in ports:
            raise LoopGuardError(
                f"the {signal_.lower()} of this watcher would be sent to itself, at {parts.netloc}: set "
                "OTEL_EXPORTER_OTLP_ENDPOINT to the address of the collector, or receive at another port"
            )


def _address(text: str) -> ListenAddress:
    try:
        return ListenAddress.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    found = float(text)
    if not 0 <= found <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MOST_SECONDS:g} seconds")
    return found


def _megabytes(text: str) -> int:
    size = int(float(text) * (1 << 20))
    if size <= 0:
        raise argparse.ArgumentTypeError(f"{text} is no size")
    return size
