"""Open the store that the environment names. This file can be imported without the extra ``redis``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.problems import HIDDEN, Problem
from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.store.redis_store import RedisStore

DEFAULT_EXPIRY = 86_400.0
"""Seconds."""
_LONGEST_EXPIRY = 31_536_000
_MOST_DIGITS = 9
_INSTALL = "the store needs two packages more: pip install 'otel-loopguard[redis]'"
_NEEDS_KEY = (
    f"a shared store needs the same key in all processes: set {PREFIX}HASH_KEY_FILE to a file with the output of "
    f"`openssl rand -hex 32`, or {PREFIX}HASH_KEY to that output."
)


def open_store(url: str, *, hash_key: bytes | None, expiry: float = DEFAULT_EXPIRY) -> RedisStore:
    """Return the store at a URL, without connecting. Raise ``StoreError`` if the URL is wrong, or something is missing.

    Args:
        url: ``redis://``, ``rediss://``, ``unix://``, or one of these before ``+sentinel`` or ``+cluster``.
        hash_key: the key of the fingerprints, which must be the same in all processes.
        expiry: seconds after its last change until the server forgets a turn.

    """
    if find_spec("redis") is None or find_spec("cryptography") is None:
        raise StoreError(_INSTALL)
    if not hash_key:
        raise StoreError(_NEEDS_KEY)
    from otel_loopguard.store.redis_store import RedisStore  # noqa: PLC0415 - needs the extra
    from otel_loopguard.store.seal import Seal  # noqa: PLC0415 - needs the extra
    from otel_loopguard.store.url import parse  # noqa: PLC0415 - few programs need it

    return RedisStore(parse(url), Seal(hash_key), expiry=expiry)


def store_from_environment(
    environ: Mapping[str, str], hash_key: bytes | None, *, remembers: float = 0.0
) -> tuple[RedisStore | None, list[Problem]]:
    """Return the store that the environment names (None if it names none) and the mistakes in it. Never raises.

    ``remembers`` is the length of a conversation's memory in seconds. Without ``STORE_EXPIRY`` a turn is kept as long.
    """
    url, text = environ.get(PREFIX + "STORE", "").strip(), environ.get(PREFIX + "STORE_EXPIRY", "").strip()
    problems, expiry = [], max(DEFAULT_EXPIRY, remembers)
    if text.isdecimal() and 0 < int(text[:_MOST_DIGITS]) <= _LONGEST_EXPIRY:
        expiry = float(text)
    elif text:
        remedy = f"it must be a whole number of seconds, up to {_LONGEST_EXPIRY}; going on with {expiry:.0f}."
        problems.append(Problem(PREFIX + "STORE_EXPIRY", "environment", text, remedy))
    if not url:
        return None, problems
    try:
        return open_store(url, hash_key=hash_key, expiry=expiry), problems
    except StoreError as error:
        problems.append(Problem(PREFIX + "STORE", "environment", HIDDEN, f"{error} Going on without the store."))
        return None, problems
