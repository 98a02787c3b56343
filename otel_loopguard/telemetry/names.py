"""Which tool names may be shown. A name that no framework registered is model output, and stays inside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_loopguard.semconv import OTHER_TOOL, UNKNOWN_TOOL

if TYPE_CHECKING:
    from otel_loopguard.core.model import ToolCall

MOST_LABELS = 200

_plain = re.compile(r"[A-Za-z0-9_.:/-]{1,64}").fullmatch


def shown_name(call: ToolCall) -> str:
    """The tool's name on spans and in logs.

    Where nobody can say whether a tool is registered, a name that looks like one is shown and anything longer or
    with blanks in it, as made-up names that carry a payload have, is not.
    """
    if call.known_tools is None:
        return call.tool if _plain(call.tool) else UNKNOWN_TOOL
    return call.tool if call.tool in call.known_tools else UNKNOWN_TOOL


class Labels:
    """Tool names as metric labels: the first 200, then ``_other``. A Prometheus keeps every label for ever."""

    def __init__(self, most: int = MOST_LABELS) -> None:
        self._known: dict[str, str] = {UNKNOWN_TOOL: UNKNOWN_TOOL}
        self._most = most

    def __call__(self, name: str) -> str:
        """The label of this name."""
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) > self._most:
            return OTHER_TOOL
        return self._known.setdefault(name, name)
