"""Open and close the runs of agents. A run is a new turn, resumes a turn, or is part of another run's turn."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.turns.endings import begin
from otel_loopguard.turns.scope import RunState, Scope, current_scope
from otel_loopguard.turns.tree_over_processes import join_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.ending import End, EndedTurn
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.turns.last_turns import LastTurns

logger = logging.getLogger("otel_loopguard")

MOST_KNOWN = 10_000
"""Open runs that are found by their ids."""


class RunInfo(NamedTuple):
    """The facts of a run, from the arguments of the framework's function."""

    conversation_id: str | None = None
    agent_name: str | None = None
    resumes: bool = False
    """True if the run continues an unfinished one, without a new message of the user."""
    can_continue: bool = True
    """True if the run may be continued after a failure, as from a checkpoint."""
    run_id: str | None = None
    """The framework's id of this run; None if the tool calls do not carry it, too."""
    apart: bool = False
    """True if its model has not read what the run around it has: then it is a turn of its own in there, too, unless the
    program has opened the turn itself."""


class OpenRun:
    """A run between its start and its end."""

    __slots__ = ("_first_call", "is_nested", "owned", "run_id", "scope")

    def __init__(self, scope: Scope, *, owned: bool, is_nested: bool = False) -> None:
        self.run_id: str | None = None
        self.scope = scope
        self.owned = owned
        """True if the turn ends with this run; False if the run is part of another run's turn."""
        self.is_nested = is_nested
        """True if the turn is part of the work on another turn."""
        self._first_call = scope.turn.calls

    @property
    def calls(self) -> int:
        """The number of calls that the run has started."""
        return self.scope.turn.calls - self._first_call


class Runs:
    """Open and close runs.

    A run inside a tool call is a child turn: an agent used as a tool has a separate history. Any other run inside
    a run, such as a sub-graph, is part of the same turn, unless it is ``apart``. A resumed run continues its
    conversation's last turn. A turn that the program opens itself is a new turn; inside a tool call only if it names a
    conversation or an id.
    """

    def __init__(
        self,
        guard: Guard,
        conversations: LastTurns,
        turn_over: Callable[[Turn], None],
        turn_ended: Callable[[Turn, EndedTurn, BaseException | None, str | None], None],
    ) -> None:
        self._guard = guard
        self._conversations = conversations
        self._turn_over = turn_over
        """Called with a turn that is over, before it is closed."""
        self._turn_ended = turn_ended
        """Called with each turn that has ended, the exception that ended it, or None, and the agent's name, or None."""
        self._known: dict[str, Scope] = {}

    def known(self, run_id: str | None) -> Scope | None:
        """Return the scope of the open run with this id; None if there is none."""
        return None if run_id is None else self._known.get(run_id)

    def open(self, info: RunInfo, *, source: str = "run", turn_id: str | None = None) -> OpenRun:
        """Open a run. ``source`` says who opened it: "run" for a framework, "explicit" for the program itself."""
        run = self._open(info, source, turn_id)
        if info.run_id is not None and len(self._known) < MOST_KNOWN:
            run.run_id = info.run_id
            self._known[info.run_id] = run.scope
        if run.owned and not run.is_nested:
            begin(run.scope.turn)
            join_tree(self._guard, run.scope.turn)
        return run

    def _open(self, info: RunInfo, source: str, turn_id: str | None) -> OpenRun:
        outer = current_scope()
        if outer is not None and not outer.strong:
            outer = None  # a weak turn does not own a run that is known
        conversation_id = info.conversation_id
        if conversation_id is None and outer is not None:
            conversation_id = outer.conversation_id
        call = None if outer is None else outer.call
        own = source == "explicit" and (call is None or info.conversation_id is not None or turn_id is not None)
        if outer is None or own:
            turn = self._turn(info, source, turn_id, conversation_id)
            if outer is not None and outer.turn is turn:
                return OpenRun(outer, owned=False)
            if conversation_id is not None:
                self._begin(conversation_id, turn)
        elif call is not None:
            turn = outer.turn.child(call)
        elif info.apart and outer.turn.source != "explicit":
            turn = self._guard.turn(source=source)
        else:
            return OpenRun(outer.of_nested_run(info.agent_name), owned=False)
        scope = Scope(
            turn,
            conversation_id=conversation_id,
            agent_name=info.agent_name,
            run_state=RunState() if source == "run" else None,
        )
        return OpenRun(scope, owned=True, is_nested=outer is not None and not own)

    def _turn(self, info: RunInfo, source: str, turn_id: str | None, conversation_id: str | None) -> Turn:
        if info.resumes and info.conversation_id is not None and self._guard.store is None:
            last = self._conversations.last(info.conversation_id)
            if last is not None:
                return last
        begins = not info.resumes
        return self._guard.turn(turn_id, source=source, conversation_id=conversation_id, begins=begins)

    def _begin(self, conversation_id: str, turn: Turn) -> None:
        replaced = self._conversations.started(conversation_id, turn)
        if replaced is not None:
            self.end_turn(replaced, how="cancelled", conversation_id=conversation_id)
            self.close_turn(replaced)

    def end_turn(
        self,
        turn: Turn,
        error: BaseException | None = None,
        *,
        how: End | None = None,
        conversation_id: str | None = None,
        agent_name: str | None = None,
    ) -> None:
        """Note how a turn has ended, unless that was noted before. ``how`` replaces what the exception says."""
        ended = turn.finish(error, how=how, conversation_id=conversation_id)
        if ended is not None:
            self._turn_ended(turn, ended, error, agent_name)

    def close(self, run: OpenRun, error: BaseException | None = None, *, unfinished: bool = False) -> list[str]:
        """Close a run, and its turn if the run owns it. Return the user's messages that were not delivered.

        ``error``: the exception that left the run, or None. An ``unfinished`` run (interrupted or failed) of a
        conversation keeps its turn for the run that resumes it.
        """
        if run.run_id is not None:
            self._known.pop(run.run_id, None)
        if not run.owned:
            return []
        conversation_id, turn = run.scope.conversation_id, run.scope.turn
        if not run.is_nested and (error is not None or not unfinished):
            self.end_turn(turn, error, conversation_id=conversation_id, agent_name=run.scope.agent_name)
        if conversation_id is not None:
            if self._conversations.ended(conversation_id, turn) and unfinished:
                return []
            self._conversations.forget(conversation_id, turn)
        return self.close_turn(turn)

    def close_turn(self, turn: Turn) -> list[str]:
        """Close a turn. Return the user's messages that were not delivered."""
        self._turn_over(turn)
        left = turn.close()
        if left:
            logger.info(
                "A turn ended before %d message(s) of the user could be delivered; they were returned.", len(left)
            )
        return left
