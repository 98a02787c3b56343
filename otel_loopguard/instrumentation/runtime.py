"""Everything that a guarded program holds of us, in one object; and the one place that knows the current one."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import hash_text
from otel_loopguard.core.policy.load import PREFIX, load_policy
from otel_loopguard.core.policy.reload import PolicyFileWatch
from otel_loopguard.instrumentation.functions.result_kinds import ResultKinds
from otel_loopguard.shield import Shield
from otel_loopguard.spans.open_spans import OpenSpans
from otel_loopguard.telemetry.meters import combinations
from otel_loopguard.telemetry.providers import Attachments, Providers, Receiver
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.telemetry.watcher import SpanWatcher
from otel_loopguard.turns.attribution import Attribution
from otel_loopguard.turns.conversations import Conversations
from otel_loopguard.turns.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_loopguard.core.policy.policy import Policy, ToolContract
    from otel_loopguard.turns.gc_safety import DeferredEnd

logger = logging.getLogger("otel_loopguard")


class Runtime:
    """The guard, where its turns come from, and what it tells OpenTelemetry."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        settings: Settings | None = None,
        guard: Guard | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self.settings = settings if settings is not None else Settings.from_environment(os.environ)
        self._policy_name = _policy_name(given=policy is not None or guard is not None)
        self.guard = guard if guard is not None else self._guard(policy)
        self.declare(active_runtime.declared)
        self.shield = Shield(self._count_error)
        self.guard.faults.report_to = self.guard.faults.report_to or self.shield.report
        self.open_spans = OpenSpans()
        self.conversations = Conversations()
        self.providers = Providers(
            self.settings,
            self.shield,
            active_runtime.attachments,
            fingerprint=self.hash,
            combinations=combinations(self.guard.policy),
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
        )
        self._find_turns()
        self.off = False
        """Whether calls are left alone, because the environment disables us and the program did not ask for us."""
        self.result_kinds = ResultKinds()
        self.deferred_ends: deque[DeferredEnd] = deque()
        """What was thrown away, before it began or in the midst of something, and is yet to be ended."""
        _forks.watch(self)

    def _guard(self, policy: Policy | None) -> Guard:
        """A guard of our own; a policy that comes from a file is read again when that changes."""
        guard = Guard(policy if policy is not None else policy_from_environment())
        if policy is None and os.environ.get(PREFIX + "CONFIG"):
            guard.watch = PolicyFileWatch(os.environ[PREFIX + "CONFIG"], lambda: load_policy(os.environ), self._use)
        return guard

    def _find_turns(self) -> None:
        self.runs = Runs(self.guard, self.conversations, self.providers.count_turn)
        self.attribution = Attribution(
            self.guard,
            self.conversations,
            self.runs,
            agent_span=self.open_spans.agent,
            enforce_weak=self.settings.enforce_without_turn,
        )
        self.watcher = SpanWatcher(
            self.open_spans,
            self.guard,
            self.attribution,
            self.providers,
            over=self.providers.count_turn,
            patched=lambda scope: active_runtime.instrumented is self and scope in active_runtime.patched_scopes,
        )
        self.receiver = Receiver(self.shield, self.open_spans, self.watcher, lambda: self.guard.live)

    def hash(self, text: str) -> str:
        """A keyed fingerprint of a name or an id that is not to be shown."""
        return hash_text(self.guard.compiled.fingerprinter.of(text.encode("utf-8", "surrogatepass")))

    def declare(self, contracts: Mapping[str, ToolContract]) -> None:
        """Add what the program says of its tools in code; where the policy says something else, the policy holds."""
        if contracts:
            policy = self.guard.policy
            added = {
                name: policy.tools[name].over(said) if name in policy.tools else said
                for name, said in contracts.items()
            }
            self.guard.use(replace(policy, tools={**policy.tools, **added}))

    def _use(self, policy: Policy) -> None:
        self.guard.use(policy)
        self.declare(active_runtime.declared)

    def end_deferred(self) -> None:
        """End what was thrown away."""
        while self.deferred_ends:
            with self.shield("function.deferred_ends"):
                self.deferred_ends.popleft().end()

    def _count_error(self, site: str) -> None:
        self.providers.outlets().meters.error(site)

    def announce(self) -> None:
        """Say at start what will happen, and how to have less of it; add the processor, name the time series."""
        with self.shield("runtime.start"):
            self.providers.outlets()
            if not self._greet():
                # Under opentelemetry-instrument this is before the program's first line, where it sets up its logging.
                self.providers.greet = self._greet

    def _greet(self) -> bool:
        """Say what will happen, if somebody listens; a program that sets up no logging has nothing on its terminal."""
        heard = logger.isEnabledFor(logging.INFO) and logger.hasHandlers()
        if heard:
            logger.info(
                "otel_loopguard is on: action %s, policy %s. To only watch and refuse nothing, set "
                "OTEL_PYTHON_LOOPGUARD_ACTION=observe.",
                self.guard.policy.action,
                self._policy_name,
            )
        return heard

    def after_fork(self) -> None:
        """In the child: no lock, turn or span of the parent lives on."""
        with self.shield("runtime.fork"):
            self.guard.after_fork()
            self.conversations.clear()
            self.attribution.clear()
            self.open_spans.clear()
            self.watcher.clear()
            self.providers.after_fork()


def policy_from_environment() -> Policy:
    """The policy that the environment describes; the default one, and an error that says why, if it is wrong."""
    loaded = load_policy(os.environ)
    for note in loaded.notes:
        logger.warning("%s", note)
    if loaded.problems:
        mistakes = "\n".join(f"  - {problem}" for problem in loaded.problems)
        logger.error("The policy has mistakes.\n%s\nGoing on with the default policy.", mistakes)
    return loaded.policy


def _policy_name(*, given: bool) -> str:
    """Where the policy comes from, for the line at start."""
    if given:
        return "given in code"
    names = (os.environ.get(PREFIX + name) for name in ("CONFIG", "PRESET"))
    return next((name for name in names if name), "default")


def _disabled() -> bool:
    """Whether the environment says of us what ``opentelemetry-instrument`` would obey."""
    names = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return any(name.strip() in ("loopguard", "*") for name in names)


class ActiveRuntime:
    """The process's runtime: set by ``instrument()``, or made when something needs one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.instrumented: Runtime | None = None
        self._own: Runtime | None = None
        self.attachments = Attachments()
        self.patched_scopes: set[str] = set()
        """Instrumentation scopes whose tool spans are of calls that our patches guard."""
        self.declared: dict[str, ToolContract] = {}
        """What the program said of its tools in code, also before there was a runtime."""

    def get(self) -> Runtime:
        """The runtime of this process, made from the environment if there is none."""
        known = self.instrumented or self._own
        if known is not None:  # without the lock: a signal handler asks, too
            return known
        with self._lock:
            if self._own is None:
                own = Runtime()
                own.off = _disabled()
                self.attachments.receiver, self._own = None if own.off else own.receiver, own
            return self._own

    def declare(self, name: str, contract: ToolContract) -> None:
        """Remember what the program says of a tool; turns that begin from now on know it."""
        with self._lock:
            self.declared[name] = contract
        for runtime in (self.instrumented, self._own):
            if runtime is not None:
                runtime.declare({name: contract})

    def put(self, runtime: Runtime | None) -> None:
        """Make this the runtime of the process; None: the frameworks are on their own again."""
        with self._lock:
            self.instrumented, self._own = runtime, None
            self.attachments.receiver = None if runtime is None else runtime.receiver


class _Forks:
    def __init__(self) -> None:
        self._runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def watch(self, runtime: Runtime) -> None:
        self._runtimes.add(runtime)

    def _forked(self) -> None:
        with Shield()("runtime.fork"):
            active_runtime.attachments.after_fork()
        for runtime in list(self._runtimes):
            runtime.after_fork()


_forks = _Forks()
active_runtime = ActiveRuntime()
