"""The tree of a turn over several processes: its ledger is in the shared store, and its name travels in W3C baggage.

A turn under a policy with ``[budget.tree]`` names its tree in the context of its calls. A program that propagates its
context, as instrumented HTTP clients do, tells the name to the processes that its tools ask; a turn that begins there
is in the same tree. The name is signed with the hash key, so that nobody else can join the tree, or make up one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from opentelemetry import baggage
from opentelemetry import context as otel_context

from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.guard.nesting import SharedTree

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn

TREE: Final = "loopguard.tree"
"""The key of the name in the baggage."""
_NAME: Final = re.compile("([0-9a-f]{16})-([0-9]{1,3})-([0-9a-f]{16})")


def join_tree(guard: Guard, turn: Turn) -> None:
    """Put a turn that begins into the tree that its context names, or make it the outermost one of a new tree.

    A new tree is made only if the policy has a budget for it. Without a store there is neither.
    """
    if guard.store is None or turn.parent is not None or turn.shared_tree is not None:
        return
    fingerprinter = turn.compiled.fingerprinter
    tree, level = _read(baggage.get_baggage(TREE), fingerprinter)
    if not level:
        if not any(budget.scope == "tree" for budget in turn.compiled.budgets):
            return
        tree = fingerprinter.of(utf8(f"tree {turn.id}"))
    name = f"tree:{tree:016x}"
    turn.shared_tree = SharedTree(guard.shared_turn(name, name), tree, level)
    if level:
        turn.shared_tree.turn.runs_elsewhere()  # reads what the others have spent; on an event loop that comes later
        turn.shared_tree.turn.spend(Ledger(children=1, depth=level), is_nested=True)


def naming_tree(turn: Turn, context: Context | None) -> Context | None:
    """Return the context of a call, with the name of the turn's tree; the context itself if it is in none.

    ``context``: None for the current one.
    """
    parent = turn.parent
    tree = turn.shared_tree if parent is None else parent.outermost.shared_tree
    if tree is None:
        return context
    name = _written(tree.id, tree.level + 1 + (0 if parent is None else parent.level), turn.compiled.fingerprinter)
    return baggage.set_baggage(TREE, name, otel_context.get_current() if context is None else context)


def _written(tree: int, level: int, fingerprinter: Fingerprinter) -> str:
    """Return the name of a tree, for turns with so many turns around them."""
    signed = f"{tree:016x}-{level}"
    return f"{signed}-{fingerprinter.of(utf8(f'{TREE} {signed}')):016x}"


def _read(name: object, fingerprinter: Fingerprinter) -> tuple[int, int]:
    """Return the tree of a name, and how many turns are around those that join it. (0, 0): no process here wrote it."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        return 0, 0
    tree, level = int(found[1], 16), int(found[2])
    return (tree, level) if _written(tree, level, fingerprinter) == name else (0, 0)
