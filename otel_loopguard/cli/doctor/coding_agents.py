"""Examine the hooks of coding agents: run them as they are registered, with sample calls, and report what works."""

from __future__ import annotations

import os
import shlex
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from otel_loopguard.cli.doctor.diagnosis import finding_lines, policy_lines, shown_settings
from otel_loopguard.cli.doctor.finding_kinds import BREAKS, OPEN, Finding, finding
from otel_loopguard.cli.doctor.findings import of_policy
from otel_loopguard.cli.doctor.registered_hook import is_url, run, trouble
from otel_loopguard.engine.quoting import ordinal
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.guard.guard import Guard
from otel_loopguard.hooks import client
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.registration import COMMANDS, STARTING, file_of, installed, is_installed, registered
from otel_loopguard.hooks.rehearsal import CALL, OUTCOME, rehearse, sample
from otel_loopguard.policy_files.load import load_environment
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.hooks.home import Home
    from otel_loopguard.hooks.programs.program import Program
    from otel_loopguard.hooks.rehearsal import Ask
    from otel_loopguard.policy_files.load import LoadedPolicy

_MOST_CALLS: Final = 20
"""Equal calls of which the policy has to refuse one; else it is said to refuse none."""
_LATE: Final = 3
"""Calls after that at which the policy refuses: a judge that is slow misses some."""
_FEW: Final = 3
"""The calls where the policy refuses none."""
_LONGEST_START: Final = 5.0
_VERDICTS: Final = {
    "broken": "Hooks do not work here: see {codes}.",
    "unknown": "No hook was run, so nothing is known.",
    "observed": "The hooks work, and loops are only reported here.",
    "works": "The hooks work here, and a call that repeats itself is refused.",
}


@dataclass
class HooksDiagnosis:
    """The findings about the hooks of programs."""

    loaded: LoadedPolicy
    """The policy that a judge begins with."""
    source: str
    """The source of that."""
    judge: str = "does not run"
    findings: list[Finding] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    """The lines about each installation."""

    @property
    def verdict(self) -> str:
        """A key of ``_VERDICTS``."""
        levels = {one.level for one in self.findings}
        if BREAKS in levels:
            return "broken"
        if OPEN in levels:
            return "unknown"
        return "observed" if any(one.code == "only-observing" for one in self.findings) else "works"

    @property
    def ok(self) -> bool:
        """True if hooks were run, and work."""
        return self.verdict not in ("broken", "unknown")

    def text(self) -> str:
        """Return the diagnosis as lines for a reader."""
        codes = " and ".join(dict.fromkeys(f"[{one.code}]" for one in self.findings if one.level == BREAKS))
        head = [f"otel-loopguard {__version__}", f"judge: {self.judge}"]
        settings = policy_lines(shown_settings(self.loaded), f"policy of {self.source}")
        found = [*finding_lines(self.findings), _VERDICTS[self.verdict].format(codes=codes), ""]
        return "\n".join([*head, *settings, *self.facts, "", *found])


def diagnose_hooks(names: Sequence[str], home: Home) -> HooksDiagnosis:
    """Run the hooks of these programs, or of all that have ours, in the user's settings and in this folder's."""
    environment, problem = dict(os.environ), ""
    if home.folder.exists():  # else no hooks were installed, or the first one makes it
        try:
            home.make()
            environment = home.environment(os.environ)
        except LoopGuardError as error:
            problem = str(error)
    source = str(home.settings) if home.settings.exists() else "the environment"
    found = HooksDiagnosis(load_environment(environment), source)
    found.findings += of_policy(found.loaded)
    if problem:
        found.findings.append(finding("hooks-folder", problem=problem))
        return found
    examined = _Examination(home, found)
    known = programs()
    without = [known[name] for name in names or known if not examined.program(known[name])]
    for program in without if names else ():
        examined.add("hooks-missing", BREAKS, who=program.title)
    if not names and len(without) == len(known):
        examined.add("hooks-missing", who="any program")
    elif len(without) < len(names or known):
        examined.action()
    running = home.running
    if running is not None:
        found.judge = f"{running.version} runs, process {running.process}, in {home.folder}"
        if running.version != __version__:
            examined.add("judge-version", running=running.version, installed=__version__)
    return found


class _Examination:
    """Runs hooks, and adds what is seen to a diagnosis."""

    def __init__(self, home: Home, found: HooksDiagnosis) -> None:
        self._home = home
        self._found = found
        self._expected = _refused_at(found.loaded.policy)

    def add(self, code: str, level: str | None = None, **values: object) -> None:
        """Add a finding, unless there is an equal one."""
        one = finding(code, level=level, **values)
        if one not in self._found.findings:
            self._found.findings.append(one)

    def action(self) -> None:
        """Add that the policy refuses nothing, if so."""
        action = self._found.loaded.policy.action
        if action is Action.OFF:
            self.add("action-off", origin=self._found.source)
        elif action < Action.REUSE:
            self.add("only-observing", action=action, origin=self._found.source)

    def program(self, program: Program) -> bool:
        """Examine the hooks of a program. Return False if it has none."""
        files = set()  # in the home directory, both places may be one file
        for root, is_project in ((Path.home(), False), (Path.cwd(), True)):
            path = file_of(program, root, is_project=is_project)
            with self._readable():
                if path not in files and is_installed(program, root, is_project=is_project):
                    files.add(path)
                    self._installation(program, root, is_project=is_project)
        if len(files) > 1:
            self.add("hooks-twice", who=program.title)
        if files and program.registration.still:
            self.add("hooks-to-do", who=program.title, still=program.registration.still)
        return bool(files)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except LoopGuardError as error:
            self.add("hooks-unreadable", problem=error)

    def _installation(self, program: Program, root: Path, *, is_project: bool) -> None:
        registration, path = program.registration, file_of(program, root, is_project=is_project)
        self._found.facts.append(f"{program.title}: {path}")
        hooks = registered(program, root, is_project=is_project)
        is_plugin = registration.whole is not None
        if is_plugin:
            change = installed(program, root, self._home, is_project=is_project)
            lacking = ["its plugin is of another version"] if change.before != change.after else []
            self.add("plugin-not-run", who=program.title)
            run(shlex.join(STARTING), b"")  # as the plugin does
        else:
            lacking = [name for name in (*registration.events, *registration.starts) if name not in hooks]
            run(hooks.get(registration.starts[0], ""), orjson.dumps(sample("")))
        if lacking:
            self.add("hooks-incomplete", path=path, events=", ".join(lacking))
        if not self._is_answered():
            self.add("judge-silent")
            return

        def ask(event: str, body: bytes) -> bytes:
            if is_plugin:
                return client.ask(str(self._home.socket), f"{program.name}/{event}", COMMANDS.seconds, body) or b""
            return run(hooks.get(event, ""), body)

        asking = next((hooks[name] for name in registration.events if name in hooks), "")
        self._rehearsal(program, ask, asking)

    def _is_answered(self) -> bool:
        """Return True once the judge answers at its socket, which is soon after it has started."""
        end = time.monotonic() + _LONGEST_START
        while not client.is_served(str(self._home.socket)):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def _rehearsal(self, program: Program, ask: Ask, asking: str) -> None:
        """Make equal calls. ``asking``: the hook before a call, or another one; empty for a plugin."""
        expected = self._expected
        done = rehearse(program, ask, _FEW if expected is None else expected + _LATE)
        fate = "runs" if done.refused_at is None else f"is refused at the {ordinal(done.refused_at)} time"
        ms = 1_000 * statistics.median(done.seconds)
        self._found.facts.append(f"  asked by {_client(asking)}: {ms:.1f} ms a hook; a call that repeats itself {fate}")
        reason = trouble(asking) if asking and not done.refused_at else ""
        if reason:
            self.add("hook-silent", who=program.title, reason=reason)
        elif done.refused_at != expected:
            found, wanted = (f"the {ordinal(at)}" if at else "none" for at in (done.refused_at, expected))
            level = BREAKS if done.refused_at is None else None
            self.add("hook-differs", level, who=program.title, found=found, wanted=wanted)
        if _client(asking).startswith("python"):
            self.add("hook-by-python", who=program.title)
        if ms > 1_000 * COMMANDS.seconds:
            self.add("hook-slow", who=program.title, ms=f"{ms:.0f}", limit=f"{1_000 * COMMANDS.seconds:.0f}")


def _refused_at(policy: Policy) -> int | None:
    """Return the number of the equal call that a policy refuses; None if it refuses none."""
    with Guard(policy, clock=lambda: 0.0).turn() as turn:
        for number in range(1, _MOST_CALLS + 1):
            if not turn.begin(CALL).runs:
                return number
            turn.end(CALL, OUTCOME)
    return None


def _client(asking: str) -> str:
    """Return the name of what asks in a hook."""
    if not asking:
        return "the doctor, as the plugin asks"
    return "HTTP" if is_url(asking) else Path(shlex.split(asking)[0]).name
