"""Fingerprint the recorded outcome of a call as the guard would have. Two results are equal if their hashes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.results import ERROR_SALT, outcome_facts
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


def facts_of(
    call: dict[str, Any], arguments: Any, fingerprinter: Fingerprinter, pending_words: PendingWords | None
) -> OutcomeFacts:
    """Return the recorded outcome as the history takes it."""
    result, hashed = call.get("result"), call.get("result_hash")
    if not hashed:
        return outcome_facts(Outcome(result, None, call.get("is_error")), arguments, fingerprinter, pending_words)
    try:
        digest = int(hashed[:16], 16)
    except ValueError:  # a hash in another notation
        digest = fingerprinter.of(hashed.encode())
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
