"""Encrypt the few texts that other processes need as they are: messages of the user to a running turn."""

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

    def seal(self, text: str) -> bytes:
        """Encrypt a text."""
        nonce = os.urandom(_NONCE_SIZE)
        return nonce + self._cipher.encrypt(nonce, text.encode("utf-8", "surrogatepass"), None)

    def unseal(self, sealed: bytes) -> str | None:
        """Decrypt a text; None if it was encrypted under another key, or changed."""
        try:
            text = self._cipher.decrypt(sealed[:_NONCE_SIZE], sealed[_NONCE_SIZE:], None)
            return text.decode("utf-8", "surrogatepass")
        except InvalidTag:
            return None
        except ValueError as error:  # the nonce is too short
            pass_interrupt(error)
            return None
