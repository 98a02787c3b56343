"""Measure one hook of a coding agent, as it is registered: python -m benchmarks.performance.hooks [--quick].

A judge runs in a process and a folder of its own. Each hook asks it about a call that is new, before it runs.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from benchmarks.harness import Goal, Section, compared, interleaved, main
from benchmarks.performance.startup import OFF, in_ms
from otel_loopguard.hooks.home import Home
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.registration import Choice, installed, registered, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TITLE = "One hook of a coding agent"
ABOUT = (
    "The whole hook before a call, by the clock, as a program waits for it: other programs that run make it slower. A "
    "call has two, before and after. Those by HTTP are asked on a connection of their own each time."
)
NOTHING = "`sh -c :`, which does nothing"
GOAL = Goal(5)
"""Milliseconds; a call has two hooks."""
PROGRAM, EVENT = "claude-code", "PreToolUse"
HOOKS_OF_A_ROUND = 20
CALLS = itertools.count()


def registered_hook(home: Home, root: Path, client: str = "", address: str = "") -> str:
    """The hook before a call, where the system has this client and no other. With an address it is by HTTP."""
    path = os.environ["PATH"]
    only = root / "bin"
    only.mkdir(parents=True)
    if client:
        (only / client).symlink_to(shutil.which(client) or "")
    os.environ["PATH"] = str(only)
    try:
        program = programs()[PROGRAM]
        write(installed(program, root, home, Choice(address=address)), home)
        return registered(program, root, is_project=False)[EVENT]
    finally:
        os.environ["PATH"] = path


def spent(ask: Callable[[bytes], object]) -> float:
    """Milliseconds of a hook."""
    told = {"session_id": "s", "prompt_id": "p", "hook_event_name": EVENT, "tool_name": "Read"}
    bodies = [
        json.dumps({**told, "tool_use_id": f"{number}", "tool_input": {"path": f"{number}.txt"}}).encode()
        for number in itertools.islice(CALLS, HOOKS_OF_A_ROUND)
    ]
    started = time.perf_counter()
    for body in bodies:
        ask(body)
    return 1_000 * (time.perf_counter() - started) / len(bodies)


def by_command(command: str, body: bytes) -> None:
    """Run a hook."""
    subprocess.run(["/bin/sh", "-c", command], input=body, stdout=subprocess.PIPE, check=True)


def by_http(url: str, body: bytes) -> None:
    """Ask at the URL of a hook."""
    with urlopen(url.partition("#")[0], body) as answer:
        answer.read()


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure each way to ask, in turn."""
    with tempfile.TemporaryDirectory(prefix="hooks-") as folder:
        root = Path(folder)
        home = Home.of({"XDG_STATE_HOME": folder})
        cases = {NOTHING: partial(spent, partial(by_command, ":"))}
        for client in filter(shutil.which, ("perl", "curl")):
            cases[f"by {client}"] = partial(spent, partial(by_command, registered_hook(home, root / client, client)))
        cases["by Python, where there is neither"] = partial(
            spent, partial(by_command, registered_hook(home, root / "python"))
        )
        url = registered_hook(home, root / "http", address=home.http_address())
        cases["by HTTP, without a process"] = partial(spent, partial(by_http, url))
        judge = partial(serve, {**os.environ, **OFF, "XDG_STATE_HOME": folder})
        judge("serve", "--background")
        try:
            rows = compared(interleaved(cases, 5 if quick else 15), NOTHING, "`sh -c :`", {"by perl": GOAL})
        finally:
            judge("stop")
    yield in_ms(TITLE, ABOUT, rows)


def serve(environment: dict[str, str], *arguments: str) -> None:
    """Start the judge, or end it."""
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "hooks", *arguments]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
