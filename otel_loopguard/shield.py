"""The one broad ``except`` of the package: a fault of ours never reaches the program that is guarded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from otel_loopguard.errors import ToolLoopError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

logger = logging.getLogger("otel_loopguard")


class Shield:
    """``with shield("site"):`` takes in every ``Exception`` of the block, counts it, and logs it once a site.

    The exception's text is kept back, because it may quote an argument: the log names its type and where it was
    raised. ``ToolLoopError`` passes, being no fault.
    """

    def __init__(self, count: Callable[[str], None] | None = None) -> None:
        self._count = count
        self._sites: dict[str, _Site] = {}
        self.seen: set[str] = set()

    def __call__(self, site: str) -> _Site:
        """The context manager of that site; it holds no state, so it is shared by all threads."""
        try:
            return self._sites[site]
        except KeyError:
            return self._sites.setdefault(site, _Site(self, site))

    def take(self, site: str, error: Exception) -> None:
        """What a ``with`` does at its end, for the ``except Exception`` of code that runs at each call or span.

        There, to enter and leave a context manager that is written in Python costs half a microsecond; ``try`` is free.
        """
        if isinstance(error, ToolLoopError):
            raise error
        self.report(site, error)

    def report(self, site: str, error: BaseException) -> None:
        """Count a fault, and log the first one of its site."""
        if self._count is not None:
            try:
                self._count(site)
            except Exception:  # noqa: BLE001 - the counter is foreign code, too, and this is the last line of defence
                logger.debug("otel_loopguard could not count an internal error at %s", site)
        if site not in self.seen:
            self.seen.add(site)
            logger.warning(
                "otel_loopguard had a fault of its own at %s (%s in %s). Your program was not affected; this one call "
                "was not guarded. Further faults there are only counted (loopguard.internal_errors). Please report it.",
                site,
                type(error).__name__,
                _place(error.__traceback__),
            )


class _Site:
    __slots__ = ("_name", "_shield")

    def __init__(self, shield: Shield, name: str) -> None:
        self._shield = shield
        self._name = name

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception) or isinstance(error, ToolLoopError):
            return False
        self._shield.report(self._name, error)
        return True


def _place(traceback: TracebackType | None) -> str:
    """File name and line of the innermost frame: enough to find a fault, and no value of a variable."""
    if traceback is None:
        return "unknown place"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"
