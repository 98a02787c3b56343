"""Start programs as from a terminal, also where the tests are a background job; read the Web's certificates once.

The file that takes longest comes first.
"""

from __future__ import annotations

import signal
import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import context as otel_context

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shell starts a background job with SIGINT ignored, and each program that it starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_create = ssl.create_default_context


@cache
def _of_bundle(path: str) -> ssl.SSLContext:
    return _create(cafile=path)


def _create_or_reuse(*arguments: Any, **more: Any) -> ssl.SSLContext:
    """Read the certificates of the Web once, not for each client of a model: that takes longer than most tests."""
    path = str(more.get("cafile"))
    if not arguments and more.keys() == {"cafile"} and path.endswith(("/certifi/cacert.pem", "/ca-certificates.crt")):
        return _of_bundle(path)
    return _create(*arguments, **more)


ssl.create_default_context = _create_or_reuse


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the week of the alert rules: one process works on it for ten minutes, and was alone at the end."""
    items.sort(key=lambda item: item.path.name != "test_week.py")


@pytest.fixture(autouse=True)
def no_span_of_an_earlier_test_is_current() -> Iterator[None]:
    """Let the next test of this process begin without a span: a fault that a test injects can leave one current."""
    yield
    if otel_context.get_current():
        otel_context.attach(otel_context.Context())
