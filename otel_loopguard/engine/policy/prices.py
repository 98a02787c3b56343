"""Price the tokens of a model request by the policy's ``cost_per_million_tokens``.

No price is built in: prices change, and contracts differ.

>>> from otel_loopguard.engine.vocabulary import Usage
>>> prices = Prices({"gpt-*": {"input": 2.0, "output": 10.0}, "gpt-mini*": {"input": 1.0, "output": 4.0}})
>>> prices.cost(Usage("gpt-mini-2", 500_000, 250_000))
1.5
>>> prices.cost(Usage("claude", 500_000, 250_000)) is None
True
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.vocabulary import Usage

_MOST_NAMES = 1_000


class Prices:
    """The prices of a policy, found by the name of the model."""

    def __init__(self, by_glob: Mapping[str, Mapping[str, float]], currency: str | None = None) -> None:
        self.currency = currency or ""
        """Empty if the policy does not name it."""
        self._patterns = [
            (re.compile(translate(glob)).match, by_glob[glob])
            for glob in sorted(by_glob, key=lambda glob: sum(map(str.isalnum, glob)))
        ]
        self._price = lru_cache(_MOST_NAMES)(self._find)

    def _find(self, model: str) -> Mapping[str, float] | None:
        found = None
        for matches, price in self._patterns:  # the most specific one comes last
            if matches(model):
                found = price
        return found

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of the known tokens; None if none is known or there is no price."""
        if not self._patterns or not usage.has_tokens:
            return None
        price = self._price(usage.model)
        if price is None:
            return None
        read, written = usage.input_tokens or 0, usage.output_tokens or 0
        cached = min(usage.cached_tokens, read)
        cached_price = price.get("cached_input", price["input"])
        return ((read - cached) * price["input"] + cached * cached_price + written * price["output"]) / 1e6
