"""Draw structured values from the bytes of a fuzzer: each byte decides one step, so a change of one is small."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXTS = (
    "", " ", "a  b", "\n", "0", "1.0", "-0.0", "1e999", "null", "true", "NaN", "[1.0]", '{"a": 1}', "('a', 1)", "{'a':",
    '["[1]"]', "[" * 300, '"', "\\", "\0", "\x1b[31m", "\ud800", "\u0130", "e\u0301", "\U0001f468", "12.5 ms", "40 %",
    "2026-11-22T10:00:00Z", "123e4567-e89b-12d3-a456-426614174000", "0a1b2c3d4e", "id: 17", "5 of 40", "Error: x",
    "running", "blake2b-64:00112233445566ff", "execute_tool look", "tool_71", "[REDACTED]", "[Scrubbed due to 'x']",
    "select 1", "ls | wc -l", "bash -c 'ls'", "/* */", "503", "isError: true",
    '{"content": [{"type": "text", "text": "x"}]}',
)  # fmt: skip
_NUMBERS = (0, 1, -1, 0.0, -0.0, 1.0, 1.5, 2**53, 2**63, 2**64, -(2**63) - 1, 1e16, 1e308, 10**400, math.inf, math.nan)
_DEEPEST = 6


class Draw:
    """A source of decisions. When the bytes are used up, every decision is the first possibility."""

    def __init__(self, data: bytes, words: Sequence[str] = ()) -> None:
        self._data = data
        self._at = 0
        self._words = (*TEXTS, *words)

    @property
    def is_empty(self) -> bool:
        """True if all bytes are used up."""
        return self._at >= len(self._data)

    def number(self, end: int) -> int:
        """Return a number below ``end``."""
        if self.is_empty:
            return 0
        self._at += 1
        found = self._data[self._at - 1]
        if end > 256 and not self.is_empty:
            self._at += 1
            found = found << 8 | self._data[self._at - 1]
        return found % end

    def one_of(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices."""
        return choices[self.number(len(choices))]

    def text(self) -> str:
        """Return a word, two of them, or raw bytes."""
        kind = self.number(8)
        if kind == 0:
            size = self.number(24)
            self._at += size
            return self._data[self._at - size : self._at].decode("utf-8", "replace")
        if kind == 1:
            return str(self.one_of(self._words)) + str(self.one_of(self._words))
        return str(self.one_of(self._words))

    def value(self, depth: int = 0) -> Any:
        """Return any JSON value, and a few that JSON cannot hold."""
        kind = self.number(8 if depth < _DEEPEST else 5)
        if kind == 0:
            return self.text()
        if kind == 1:
            return self.number(1 << 16)
        if kind == 2:
            return self.one_of(_NUMBERS)
        if kind == 3:
            return self.one_of((None, True, False))
        if kind == 4:
            return self.text()
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.number(5))]
        return {self.text(): self.value(depth + 1) for _ in range(self.number(5))}

    def either(self, right: Any) -> Any:
        """Return the right value, or now and then any other."""
        return right if self.number(8) else self.value()
