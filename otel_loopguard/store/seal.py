"""Encrypt what is kept on a server, so that nothing of it can be read or changed there."""

from __future__ import annotations

import os
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from otel_loopguard.interrupts import pass_interrupt

_NONCE_SIZE = 12


class Seal:
    """AES-256 in Galois/Counter mode, under a key that is derived from the hash key of the deployment."""

    def __init__(self, hash_key: bytes) -> None:
        # A hash key may have any length; blake2b takes up to 64 bytes as its key, so it is the message.
        self._cipher = AESGCM(blake2b(hash_key, digest_size=32, person=b"loopguard-seal").digest())

    def seal(self, data: bytes, place: bytes = b"") -> bytes:
        """Encrypt data for a place, such as a cell and its version. Copied to another place, it cannot be decrypted."""
        nonce = os.urandom(_NONCE_SIZE)
        return nonce + self._cipher.encrypt(nonce, data, place)

    def unseal(self, sealed: bytes, place: bytes = b"") -> bytes | None:
        """Return the decrypted data; None if it was changed, or encrypted under another key or for another place."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_SIZE], sealed[_NONCE_SIZE:], place)
        except InvalidTag:
            return None
        except ValueError as error:  # the nonce is too short
            pass_interrupt(error)
            return None
