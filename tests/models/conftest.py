"""What every test of programs needs."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def open_connections() -> Iterator[None]:
    """Collect the connections that programs leave open: Python warns where it finds them, in a test that ignores it."""
    yield
    gc.collect()
