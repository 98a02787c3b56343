"""The recorded outcome of a call, fingerprinted as the guard would have. Two results are equal if their hashes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Outcome
from otel_loopguard.core.values.canonical import result_bytes
from otel_loopguard.core.values.fingerprint import Fingerprinter
from otel_loopguard.core.values.results import ERROR_SALT, contains_error, may_contain_error, outcome_facts

if TYPE_CHECKING:
    from otel_loopguard.core.values.results import OutcomeFacts

_CUT = 2_000
_AS_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_64_BITS = 0xFFFFFFFFFFFFFFFF


class Hasher(Fingerprinter):
    """Fingerprints that only tell things apart: those of a run are compared with each other, and then forgotten."""

    __slots__ = ()

    def of(self, data: bytes) -> int:
        """Python's own hash: a sixth of the time of a keyed BLAKE2b, which keeps what it was made of a secret."""
        return hash(data) & _64_BITS


def failed(call: dict[str, Any]) -> bool:
    """Whether a call, whose result is a text, is recorded as an error, or its text is one."""
    said, text = call.get("is_error"), call["result"]
    return bool(said) or (may_contain_error(text) and contains_error(result_bytes(text), said))


def told_apart(call: dict[str, Any]) -> int | str:
    """What is equal for results that are: the recorded hash, as a number if it is one; else the text itself."""
    hashed: str | None = call.get("result_hash")
    if not hashed:
        return call["result"]  # type: ignore[no-any-return]
    try:
        return int(hashed[:16], 16)
    except ValueError:  # somebody else's hash, in another notation
        return hashed


def seen_of(call: dict[str, Any], arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    """The recorded outcome."""
    result, hashed = call.get("result"), call.get("result_hash")
    if not hashed:
        return outcome_facts(Outcome(result, None, call.get("is_error")), arguments, fingerprinter)
    told = told_apart(call)
    digest = told if isinstance(told, int) else fingerprinter.of(told.encode())
    outcome = Outcome(result, None, call.get("is_error"), False, digest)  # noqa: FBT003 - keywords cost a third more
    seen = outcome_facts(outcome, arguments, fingerprinter)
    if type(result) is str and len(result) >= _CUT:
        # What was cut off still tells results apart: as letters, so that it is not masked as an id.
        seen = seen._replace(
            digest=digest ^ ERROR_SALT if seen.is_error else digest,
            data=seen.data + b" " + hashed.translate(_AS_LETTERS).encode(),
        )
    return seen
