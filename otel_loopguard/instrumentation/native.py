"""Frameworks that make tool spans of their own, and where our patch of them sits.

Where that patch is in place, it sees every call that such a span tells of, also those whose span lies beside ours,
as that of a call does whose arguments were turned down before its executor was reached.
"""

from __future__ import annotations

import sys
from typing import Final

PATCHED: Final = {"pydantic-ai": ("pydantic_ai.tool_manager", "pydantic_ai._tool_manager")}
"""The instrumentation scope of a framework's own spans; and the modules, one of which holds its executor."""


def patched(maker: str | None) -> bool:
    """Whether spans of this scope tell of calls that our patches see, provided that these are switched on."""
    return maker is not None and any(module in sys.modules for module in PATCHED.get(maker, ()))
