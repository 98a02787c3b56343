"""The fault barrier: a fault of this package never reaches the program that is guarded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from otel_loopguard.errors import NotStoredError, RunStopped
from otel_loopguard.interrupts import is_interrupt, pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__tracebackhide__ = True  # pytest shows the lines of the program, not these

logger = logging.getLogger("otel_loopguard")

_ON_PURPOSE = (RunStopped, NotStoredError)


class Shield:
    """Catch, count and log the faults of a block: ``with shield("site"):``. Each site is logged once.

    The log has the exception's type and the place where it was raised, not its text, which may quote an argument.
    ``RunStopped`` and ``NotStoredError`` pass, because they are raised on purpose, and so do exceptions of signal
    handlers (``interrupts``). ``count(site)`` is called for each fault.
    """

    def __init__(self, count: Callable[[str], None] | None = None) -> None:
        self._count = count
        self._sites: dict[str, _Site] = {}
        self.seen: set[str] = set()
        """The sites of which a fault was logged."""

    def __call__(self, site: str) -> _Site:
        """Return the context manager of this site. It holds no state, so all threads share it."""
        return self._sites.get(site) or self._sites.setdefault(site, _Site(self, site))

    def take(self, site: str, error: Exception) -> None:
        """Report a caught exception, or raise it again if it is no fault: the end of an ``except Exception``.

        Use it on the way of a call: the context manager costs half a microsecond there, and ``try`` costs nothing.
        """
        if isinstance(error, _ON_PURPOSE) or is_interrupt(error):
            raise error
        self.report(site, error)

    def report(self, site: str, error: BaseException) -> None:
        """Count a fault, and log the first one of its site. A fault of the counter or of a log handler never leaves."""
        if self._count is not None:
            try:
                self._count(site)
            except Exception as fault:  # noqa: BLE001 - the counter is code of the SDK, and nothing else catches its faults
                pass_interrupt(fault)
        if site in self.seen:
            return
        self.seen.add(site)  # before the line: a handler that calls guarded functions may have a fault here, too
        try:
            logger.warning(
                "otel_loopguard had a fault of its own at %s (%s in %s). Your program was not affected; what the guard "
                "did there was left out. Further faults there are only counted (loopguard.internal_errors). "
                "Please report it.",
                site,
                type(error).__name__,
                _place(error.__traceback__),
            )
        except Exception as fault:  # noqa: BLE001 - handlers are foreign code, and logging needs more frames than may be left
            self.seen.discard(site)
            pass_interrupt(fault)


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
        if error is None or not isinstance(error, Exception) or isinstance(error, _ON_PURPOSE) or is_interrupt(error):
            return False
        self._shield.report(self._name, error)
        return True


def _place(traceback: TracebackType | None) -> str:
    """Return file name and line of the innermost frame: enough to find a fault, without a value of a variable."""
    if traceback is None:
        return "unknown place"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"
