"""Fingerprint the recorded outcome of a call as the guard would have. Two results are equal if their hashes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.results import ERROR_SALT, is_error_text, outcome_facts
from otel_loopguard.engine.words import Outcome

if TYPE_CHECKING:
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.values.results import OutcomeFacts

_CUT = 2_000
_AS_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_64_BITS = 0xFFFFFFFFFFFFFFFF


class RunFingerprinter(Fingerprinter):
    """Fingerprints that are compared within one run, and then dropped. They need no key."""

    __slots__ = ()

    def of(self, data: bytes) -> int:
        """Return Python's own hash: it takes a sixth of the time of a keyed BLAKE2b, which keeps its input secret."""
        return hash(data) & _64_BITS


FINGERPRINTER = RunFingerprinter()


def is_failure(call: dict[str, Any]) -> bool:
    """Return True if a call with a text as its result is recorded as an error, or its text is one."""
    flag = call.get("is_error")
    return is_error_text(call["result"]) if flag is None else bool(flag)


def result_identity(call: dict[str, Any]) -> int | str:
    """Return a value that is equal for equal results: the recorded hash, as a number if it is one; else the text."""
    hashed: str | None = call.get("result_hash")
    if not hashed:
        return call["result"]  # type: ignore[no-any-return]  # it is parsed JSON
    try:
        return int(hashed[:16], 16)
    except ValueError:  # a hash in another notation
        return hashed


def facts_of(
    call: dict[str, Any], arguments: Any, fingerprinter: Fingerprinter, pending_words: PendingWords | None
) -> OutcomeFacts:
    """Return the recorded outcome as the history takes it."""
    result, hashed = call.get("result"), call.get("result_hash")
    if not hashed:
        return outcome_facts(Outcome(result, None, call.get("is_error")), arguments, fingerprinter, pending_words)
    identity = result_identity(call)
    digest = identity if isinstance(identity, int) else fingerprinter.of(identity.encode())
    outcome = Outcome(result, None, call.get("is_error"), False, digest)  # noqa: FBT003 - keywords cost a third more
    facts = outcome_facts(outcome, arguments, fingerprinter, pending_words)
    if type(result) is str and len(result) >= _CUT:
        # The recorded text may be cut off, and the rest makes a difference. The hash stands for it, as letters, so that
        # it is not masked as an id.
        facts = facts._replace(
            digest=digest ^ ERROR_SALT if facts.is_error else digest,
            data=facts.data + b" " + hashed.translate(_AS_LETTERS).encode(),
        )
    return facts
