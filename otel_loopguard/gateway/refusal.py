"""The answer to a request whose turn is ended: HTTP 400, which clients do not send again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.semconv import ERROR_REFUSED

if TYPE_CHECKING:
    from otel_loopguard.errors import RunStopped

_TURN_OFF: Final = "set OTEL_PYTHON_LOOPGUARD_ACTION=observe for the proxy"


def message(error: RunStopped) -> str:
    """Return the text for people, with all facts of ``fields``: some clients show nothing else."""
    return (
        f"{error} [{ERROR_REFUSED}: mode {clean_name(error.mode)}, count {error.repeats}, limit {error.limit}, "
        f"turn {error.turn_id}] A new message of the user begins a new turn. To turn this off, {_TURN_OFF}."
    )


def fields(error: RunStopped) -> dict[str, Any]:
    """Return the facts for programs. Not every API keeps the type of an error, so it is here, too."""
    return {
        "error": ERROR_REFUSED,
        "mode": clean_name(error.mode),
        "count": error.repeats,
        "limit": error.limit,
        "turn_id": error.turn_id,
        "turn_off": _TURN_OFF,
    }
