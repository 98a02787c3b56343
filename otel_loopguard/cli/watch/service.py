"""``otel-loopguard watch --otlp :4317``: receive the spans of other programs, and judge them until a signal comes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import ExitStack
from threading import Event
from time import sleep
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from otel_loopguard.cli.ledger_words import spent_in_words
from otel_loopguard.cli.options import megabytes, parse_number
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.budget import MOST_BYTES, WINDOW_SECONDS
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import FrameType

    from otel_loopguard.cli.watch.live import LiveJudge
    from otel_loopguard.cli.watch.report import WatchReport

_MOST_SECONDS = 3_600.0
_POLL_SECONDS = 0.2
_TURNS = {"conversation": "conversation", "agent": "agent_span", "trace": "trace"}
_USUAL: dict[str, Any] = {"window": WINDOW_SECONDS, "turns": "conversation", "queue": MOST_BYTES}
"""The options that only receiving spans has, with their defaults."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not listened at


class Receiver(Protocol):
    """Receives messages, and hands them to the live judge."""

    @property
    def address(self) -> ListenAddress:
        """The address that it listens at."""

    def start(self) -> None:
        """Serve from now on."""

    def stop(self) -> None:
        """Take no more messages, and return when the ones in progress are answered."""


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
        help="receive OTLP by gRPC at this address: :4317 is for this machine only, 0.0.0.0:4317 for all",
    )
    group.add_argument(
        "--otlp-http",
        metavar="[HOST]:PORT",
        type=_address,
        help="receive OTLP by HTTP at /v1/traces and /v1/logs of this address, protobuf or JSON, plain or gzip",
    )
    group.add_argument(
        "--window",
        metavar="SECONDS",
        type=_seconds,
        default=_USUAL["window"],
        help="how long a span waits for others that began before it; those that come later are judged out of order "
        f"(default: {WINDOW_SECONDS:g})",
    )
    group.add_argument(
        "--turns",
        choices=list(_TURNS),
        default=_USUAL["turns"],
        help="what a turn is: the calls of a conversation if it is known, else of an agent's run, else of a trace "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--queue",
        metavar="MB",
        type=megabytes,
        default=_USUAL["queue"],
        help="the memory of all messages that are read or wait; if it is used up, senders have to send again "
        f"(default: {MOST_BYTES >> 20})",
    )


def is_wanted(options: argparse.Namespace) -> bool:
    """Return True if the user wants to receive spans of other programs."""
    return options.otlp is not None or options.otlp_http is not None


def refuse_options(options: argparse.Namespace) -> None:
    """Raise a ``LoopGuardError`` if an option was given that only receiving spans has."""
    given = [f"--{name}" for name, value in _USUAL.items() if getattr(options, name) != value]
    if given:
        raise LoopGuardError(f"{', '.join(given)}: only for `watch --otlp`, which runs no program")


def run(options: argparse.Namespace) -> int:
    """Receive and judge spans until SIGTERM or SIGINT; then judge and export what was taken, and return 0."""
    if options.program or options.module:
        raise LoopGuardError("`watch` either runs a program (app.py) or receives spans (--otlp): leave one out")
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.policy import chosen_policy  # noqa: PLC0415 - see above
    from otel_loopguard.cli.replay.judge import PolicyJudge  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.exports import exports  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.live import LiveJudge  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.report import WatchReport  # noqa: PLC0415 - see above
    from otel_loopguard.shield import Shield  # noqa: PLC0415 - see above
    from otel_loopguard.telemetry.settings import Settings  # noqa: PLC0415 - see above

    policy = chosen_policy(options.preset, options.policy).checked(options.preset or options.policy or "environment")
    _check_endpoints(os.environ, [one for one in (options.otlp, options.otlp_http) if one is not None])
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
    """Return an event that SIGTERM or SIGINT sets. If the same signal comes again, it ends the process at once."""
    stopping = Event()

    def stop(caught: int, _: FrameType | None) -> None:
        signal.signal(caught, signal.SIG_DFL)
        stopping.set()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)
    return stopping


def _print_start(receivers: Iterable[Receiver], options: argparse.Namespace) -> None:
    for one in receivers:
        if one.address.is_everywhere:
            print(
                f"otel-loopguard: warning: {one.address} is open at all addresses of this machine, and has no login: "
                f"anyone who reaches it may send spans. For this machine only: :{one.address.port}",
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
    words = spent_in_words(report.spent._replace(calls=report.calls), report.currency, calls="tool call")
    print(
        f"otel-loopguard: {words}, {counted(report.loops, 'turn')} with a loop, {counted(report.trips, 'trip')}.",
        file=sys.stderr,
    )


def _check_endpoints(environ: Mapping[str, str], own: Iterable[ListenAddress]) -> None:
    """Raise ``LoopGuardError`` if the watcher would export to itself: by default it does if it has that port."""
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
    return parse_number(text, lambda found: 0 <= found <= _MOST_SECONDS, f"must be seconds from 0 to {_MOST_SECONDS:g}")
