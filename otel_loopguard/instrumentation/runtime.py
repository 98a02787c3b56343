"""The runtime: all parts of the guard in one object. One is active in a process."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.problems import listed
from otel_loopguard.engine.tools.declared import DeclaredTools
from otel_loopguard.engine.vocabulary import Action, hash_text
from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.guard.ending import CANCELLED, FAILED
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.model_reader import ModelReader
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.policy_files.load import key_of_environment, load_environment, short_key
from otel_loopguard.policy_files.reload import PolicyFileWatch
from otel_loopguard.shield import Shield
from otel_loopguard.spans.open_spans import OpenSpans
from otel_loopguard.store.settings import store_from_environment
from otel_loopguard.telemetry.meters import announced_trips
from otel_loopguard.telemetry.providers import Providers
from otel_loopguard.telemetry.run_span import TurnSpan
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.telemetry.unseen import Unseen
from otel_loopguard.telemetry.watcher import SpanWatcher
from otel_loopguard.turns.attribution import Attribution
from otel_loopguard.turns.equal_turns import EqualTurns
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.last_turns import LastTurns
from otel_loopguard.turns.runs import Runs
from otel_loopguard.turns.usage import UsageLedger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_loopguard.engine.policy.policy import Policy, ToolContract
    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.guard.ending import EndedTurn
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.telemetry.idle_watcher import WaitingWatcher
    from otel_loopguard.turns.gc_safety import DeferredEnd
    from otel_loopguard.turns.scope import Scope

logger = logging.getLogger("otel_loopguard")


_MOST_ANSWER_TOOLS = 10_000
"""A program may make the names of the schemas of its answers."""


class Runtime:
    """The guard, the turns of its calls, and its telemetry."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        settings: Settings | None = None,
        guard: Guard | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        open_spans: OpenSpans | None = None,
    ) -> None:
        self.settings = settings if settings is not None else Settings.from_environment(os.environ)
        self._policy_name = _policy_name(given=policy is not None or guard is not None)
        self.guard = guard if guard is not None else self._make_guard(policy)
        if policy is not None or guard is not None:
            key = self.guard.policy.hash_key
            warning = short_key(key)
            if warning and key != key_of_environment(os.environ)[0]:  # of that one its loader warns
                logger.warning("Policy(hash_key=...): %s", warning)
        self.guard.share(active_runtime.declared)
        self.shield = Shield(self._count_error)
        if guard is None:
            self._share_turns()
        self.guard.faults.report_to = self.guard.faults.report_to or self.shield.report
        self.guard.faults.shield = self.shield
        self.open_spans = OpenSpans() if open_spans is None else open_spans
        self.conversations = LastTurns(elsewhere=self._turn_elsewhere)
        self.providers = Providers(
            self.settings,
            self.shield,
            process_start.attachments,
            fingerprint=self.hash,
            announced=announced_trips(self.guard.policy),
            clock=self.guard.clock,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
        )
        self.usage = UsageLedger(self._book_usage)
        self.equal_turns = EqualTurns()
        self.runs = Runs(self.guard, self.conversations, self._turn_over, self._turn_ended)
        self.reader = ModelReader(
            self.guard, self.runs, self.providers, self.usage, self.shield, begin_span=self.begin_span
        )
        self.reader.answer_tools = active_runtime.answer_tools
        self.attribution = Attribution(
            self.guard,
            self.conversations,
            self.runs,
            agent_span=self.open_spans.agent,
            written=self.reader.turn_of_call,
            enforce_weak=self.settings.enforce_without_turn,
        )
        self.watcher = SpanWatcher(
            self.open_spans,
            self.guard,
            self.attribution,
            self.providers,
            patched=lambda scope: active_runtime.instrumented is self and scope in active_runtime.patched_scopes,
            written=self.reader.is_open,
        )
        self.off = False
        """True if calls are not guarded: the environment disables this package, and the program does not use it."""
        self.deferred_ends: deque[DeferredEnd] = deque()
        """Calls and runs that were thrown away under the garbage collector, and have to be ended."""
        _forks.watch(self)

    def _make_guard(self, policy: Policy | None) -> Guard:
        """Make a guard. A policy that comes from a file is read again when the file changes."""
        guard = Guard(policy if policy is not None else policy_from_environment())
        file = os.environ.get(PREFIX + "CONFIG")
        if policy is None and file:
            guard.watch = PolicyFileWatch(file, lambda: load_environment(os.environ), guard.use)
        return guard

    def _share_turns(self) -> None:
        """Use the shared store that the environment names, if any."""
        with self.shield("store.open"):
            policy = self.guard.policy
            remembers = policy.conversation_idle if self.guard.compiled.remembers else 0.0
            store, problems = store_from_environment(os.environ, policy.hash_key, remembers=remembers)
            if problems:
                logger.error("The settings of the shared store have mistakes.\n%s", listed(problems))
            if store is not None:
                store.shield, store.count = self.shield, self._count_store_failure
                self.guard.store = store

    def _count_store_failure(self, kind: str) -> None:
        with self.shield("store.count"):
            self.providers.outlets().meters.store_failure(kind)

    def hash(self, text: str) -> str:
        """Return a keyed fingerprint of a name or an id that is not to be shown."""
        return hash_text(self.guard.compiled.fingerprinter.of(text.encode("utf-8", "surrogatepass")))

    def _turn_elsewhere(self, conversation_id: str) -> Turn | None:
        """Return the shared turn of this conversation if another process may work on it; None without a store."""
        if self.guard.store is None:
            return None
        turn = self.guard.shared_turn(f"conversation:{conversation_id}", source="thread", begins=False)
        return turn if turn.is_shared and turn.runs_elsewhere() else None

    def end_deferred(self) -> None:
        """End the calls and runs that were thrown away under the garbage collector."""
        while self.deferred_ends:
            with self.shield("function.deferred_ends"):
                self.deferred_ends.popleft().end()

    def _count_error(self, site: str) -> None:
        self.providers.outlets().meters.error(site)

    def begin_span(self, scope: Scope) -> None:
        """Begin the span of a turn that no framework runs, unless an agent's span of others is around."""
        if self.open_spans.agent() is None:
            TurnSpan.start(self.providers, scope)

    def _turn_ended(self, turn: Turn, ended: EndedTurn, error: BaseException | None, agent_name: str | None) -> None:
        with self.shield("turn.end"):
            meters = self.providers.outlets().meters
            meters.turn_ended(turn.known_as, ended.ended_as, turn.strongest_action)
            meters.turn_spent(ended.ledger, agent_name, self.guard.compiled.prices.currency)
        if turn.span is not None:
            with self.shield("run.span"):
                was_left = turn.source == "messages" and error is None and ended.ended_as in (CANCELLED, FAILED)
                shown = error if isinstance(error, Exception) else None
                turn.span.end(shown, ended.ended_as, self.guard.clock() - turn.last_used if was_left else 0.0)

    def _turn_over(self, turn: Turn) -> None:
        self.providers.count_turn(turn.known_as, turn.calls)
        with self.shield("turn.forget"):
            self.providers.events.forget(turn.id)
        with self.shield("turn.end"):
            self.usage.close(turn.id)
        with self.shield("turn.compare"):
            self.equal_turns.over(turn)

    def _book_usage(self, usage: Usage, context: Context, *, is_loop: bool) -> None:
        with self.shield("usage.book"):
            prices = self.guard.compiled.prices
            meters = self.providers.outlets().meters
            meters.model_request(usage, prices.cost(usage), prices.currency, context, is_loop=is_loop)

    def start(self) -> None:
        """Add the span processor, start the time series at zero, and log the policy."""
        with self.shield("runtime.start"):
            self.providers.outlets()
            self.summarize_at_exit()
            if not self._greet():
                # Under opentelemetry-instrument this runs before the program sets up its logging: log it later.
                self.providers.greet = self._greet

    def summarize_at_exit(self) -> None:
        """Print a line with the sums of this process at its end, unless the line or the guard is switched off."""
        if self.settings.summary and self.guard.policy.action is not Action.OFF:
            self.providers.summary.print_at_exit(_expects_calls, _unseen)

    def unseen(self) -> Unseen:
        """Return what was not seen in this process."""
        clients, found = active_runtime.unread_clients.items(), self.reader.unanswered
        requests = 0 if found.has_tools else found.requests
        turns = self.equal_turns.longest_with(self.reader.open_turns())
        return Unseen(tuple(f"{name} {version}" for name, version in clients), found.replies, requests, turns)

    def _greet(self) -> bool:
        """Log the policy, if the program has set up logging. Return False if it has not."""
        logs = logger.isEnabledFor(logging.INFO) and logger.hasHandlers()
        if logs:
            logger.info(
                "otel_loopguard is on: action %s, policy %s. To observe and refuse nothing, set "
                "OTEL_PYTHON_LOOPGUARD_ACTION=observe.",
                self.guard.policy.action,
                self._policy_name,
            )
        return logs

    def after_fork(self) -> None:
        """Drop the parent's locks, conversations and spans in a child process. ``Guard`` renews its turns itself."""
        with self.shield("runtime.fork"):
            self.deferred_ends.clear()
            self.conversations.clear()
            self.usage.clear()
            self.equal_turns = EqualTurns()
            self.attribution.clear()
            self.open_spans.clear()
            self.watcher.clear()
            self.reader.after_fork()
            self.providers.after_fork()


def policy_from_environment() -> Policy:
    """Load the policy from the environment, and log its mistakes."""
    loaded = load_environment(os.environ)
    for note in loaded.notes:
        if loaded.policy.hash_key is not None or "HASH_KEY" not in note.name:  # without a key, the guard itself warns
            logger.warning("%s", note)
    if loaded.problems:
        mistakes = "a mistake. Until it is" if len(loaded.problems) == 1 else "mistakes. Until they are"
        logger.error("The policy has %s corrected, %s.\n%s", mistakes, loaded.in_force, listed(loaded.problems))
    return loaded.policy


def _expects_calls() -> bool:
    """Return True if the guard is on in a program that has an agent, so that it is odd if there was no call."""
    return active_runtime.instrumented is not None and active_runtime.expects_calls


def _unseen() -> Unseen:
    """Return what the guard of this process has not seen; nothing if it is off."""
    runtime = active_runtime.instrumented
    return Unseen() if runtime is None else runtime.unseen()


def _policy_name(*, given: bool) -> str:
    """Return the origin of the policy, for the line at start."""
    if given:
        return "given in code"
    names = (os.environ.get(PREFIX + name) for name in ("CONFIG", "PRESET"))
    return next((name for name in names if name), "default")


def _disabled() -> bool:
    """Return True if OTEL_PYTHON_DISABLED_INSTRUMENTATIONS names loopguard."""
    names = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return any(name.strip() in ("loopguard", "*") for name in names)


class ActiveRuntime:
    """The runtime of this process: set by ``instrument()``, or made when something needs one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.instrumented: Runtime | None = None
        """The runtime of ``instrument()``. Patches do nothing without it."""
        self._own: Runtime | None = None
        """The runtime for ``tool``, ``call`` and ``turn`` in a program that never called ``instrument()``."""
        self.expects_calls = False
        """True once the program imported a guarded framework or any client, or called ``instrument()`` itself."""
        self.unread_clients: dict[str, str] = {}
        """The clients in use whose requests are not read, with their versions."""
        self.patched_scopes: set[str] = set()
        """Instrumentation scopes whose tool spans are of calls that our patches guard."""
        self.answer_tools: set[str] = set()
        """The names of tools whose call is the answer of an agent."""
        self.declared = DeclaredTools()
        """The contracts that the program declared in code, also before there was a runtime."""

    def get(self) -> Runtime:
        """Return the runtime of this process. Make it from the environment if there is none."""
        known = self.instrumented or self._own
        if known is not None:  # without the lock: a signal handler may run this
            return known
        process_start.wake()
        if self.instrumented is not None:
            return self.instrumented
        with self._lock:
            if self._own is None:
                own = Runtime()
                own.off = _disabled()
                own.summarize_at_exit()
                if self._own is None:  # a signal handler may have made one in between
                    self._own = own
                    if process_start.watcher is None and not own.off:
                        process_start.watcher = own.watcher
            return self._own

    def add_answer_tools(self, names: Iterable[str]) -> None:
        """Note the names of tools whose call is the answer of an agent: such an agent cannot answer in text."""
        if len(self.answer_tools) < _MOST_ANSWER_TOOLS:
            self.answer_tools.update(names)

    def declare(self, name: str, contract: ToolContract) -> None:
        """Add the contract of a tool. Settings of the policy take precedence."""
        warning = self.declared.add(name, contract)
        if warning is not None:
            logger.warning(warning)
        for runtime in (self.instrumented, self._own):
            if runtime is not None:
                runtime.guard.compiled.contracts.forget(name)

    def put(self, runtime: Runtime | None, *, instead_of: WaitingWatcher | None = None) -> bool:
        """Make this the runtime of the process; None switches the guard off. Return True if that was done.

        ``instead_of``: do nothing if this watcher no longer waits, because another thread has made a runtime.
        """
        with self._lock:
            if instead_of is not None and process_start.watcher is not instead_of:
                return False
            self.instrumented, self._own = runtime, None
            process_start.watcher = None if runtime is None else runtime.watcher
            return True

    def after_fork(self) -> None:
        """Renew the lock in a child process: a thread that is gone may hold it."""
        self._lock = threading.RLock()


class _Forks:
    def __init__(self) -> None:
        self._runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def watch(self, runtime: Runtime) -> None:
        self._runtimes.add(runtime)

    def _forked(self) -> None:
        with Shield()("runtime.fork"):
            garbage_collector.after_fork()
            active_runtime.after_fork()
        for runtime in list(self._runtimes):
            runtime.after_fork()


active_runtime = ActiveRuntime()
_forks = _Forks()
