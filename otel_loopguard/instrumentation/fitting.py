"""Whether a place is what a table says it is, and telling when a new version of a framework has none of them."""

from __future__ import annotations

import inspect
import logging
from importlib.metadata import packages_distributions, version
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.instrumentation.targets import CallStyle, RunTarget, ToolTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from otel_loopguard.instrumentation.targets import Target

logger = logging.getLogger("otel_loopguard")

_COROUTINE, _GENERATOR, _ASYNC_GENERATOR = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
_NEVER: Final[dict[CallStyle, tuple[Callable[[Any], bool], ...]]] = {
    CallStyle.SYNC: (_COROUTINE, _GENERATOR, _ASYNC_GENERATOR),
    CallStyle.BACKGROUND: (_COROUTINE, _GENERATOR, _ASYNC_GENERATOR),
    CallStyle.CONTEXT: (_COROUTINE, _GENERATOR),
    CallStyle.GENERATOR: (_COROUTINE, _ASYNC_GENERATOR),
    CallStyle.ASYNC_GENERATOR: (_COROUTINE, _GENERATOR),
}


def fits(function: Any, target: Target) -> bool:
    """Whether the function is of the sort that the row says: a wrapper of another sort would break its callers.

    It may be a program's own, in a module that only has the name of the framework's.
    """
    style = getattr(target, "style", None)
    if style is None:
        return callable(function)
    chain = list(_chain(function))
    if style is CallStyle.ASYNC:
        return any(_COROUTINE(one) for one in chain)
    return not any(is_one(one) for one in chain for is_one in _NEVER[style])


def _chain(function: Any) -> Iterator[Any]:
    """The function and what it wraps, whoever wrapped it."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def tell_missing(module: str, targets: Collection[Target], missing: Collection[Target]) -> None:
    """Say once that this version of a framework runs its tools, or its agents, somewhere else than all known ones do.

    Tables name the places of several versions, so some are always missing. A program's own module of the same name
    belongs to no distribution, and nothing is said of it.
    """
    for sort, what in ((ToolTarget, "tool calls are"), (RunTarget, "runs are")):
        needed = [target for target in targets if isinstance(target, sort) and not target.optional]
        if needed and all(target in missing for target in needed):
            owners = packages_distributions().get(module.partition(".")[0], [])
            if owners:
                named = ", ".join(f"{owner} {version(owner)}" for owner in dict.fromkeys(owners))
                places = ", ".join(target.path for target in needed)
                logger.warning(
                    "otel_loopguard found nothing to patch in %s of %s (looked for %s): its %s not guarded. "
                    "A newer otel_loopguard may know this version; please report it.",
                    module,
                    named,
                    places,
                    what,
                )
