"""The store that the environment names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from otel_loopguard.errors import StoreError
from otel_loopguard.store import settings
from otel_loopguard.store.redis_store import name_of
from otel_loopguard.store.settings import open_store, store_from_environment
from tests.store.servers import write

from .servers import KEY

PREFIX = "OTEL_PYTHON_LOOPGUARD_"
URL = "redis://:s3cret@127.0.0.1:7"


def found(key=KEY, **variables):
    store, problems = store_from_environment({PREFIX + name: value for name, value in variables.items()}, key)
    return store, [str(problem) for problem in problems]


def test_without_a_url_there_is_no_store():
    assert found() == (None, [])
    assert found(STORE="  ") == (None, [])


def test_a_url_is_checked_and_nothing_is_connected():
    store, problems = found(STORE=URL)
    assert str(store.url) == "redis://127.0.0.1:7"
    assert problems == []


def test_a_wrong_url_is_a_mistake_without_its_secrets():
    store, (problem,) = found(STORE=URL + "/main")
    assert store is None
    assert problem.startswith("environment: OTEL_PYTHON_LOOPGUARD_STORE: redis://: the path must be the number")
    assert "cret" not in problem


def test_a_store_needs_a_hash_key():
    store, (problem,) = found(key=None, STORE=URL)
    assert store is None
    assert "set OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE" in problem
    assert "openssl rand -hex 32" in problem


def test_a_store_needs_the_extra(monkeypatch):
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    store, (problem,) = found(STORE=URL)
    assert store is None
    assert "pip install 'otel-loopguard[redis]'" in problem
    with pytest.raises(StoreError, match="pip install"):
        open_store(URL, hash_key=KEY)


def test_a_program_without_a_store_imports_none_of_it():
    code = (
        f"from {settings.__name__} import store_from_environment as f; import sys; f({{}}, None); print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert settings.__name__ in modules
    assert not {"redis", "cryptography", "ssl", "asyncio"} & set(modules)


def test_the_expiry(server):
    store, problems = found(STORE=server.url + "?timeout=5", STORE_EXPIRY="60")
    assert write(store, "short")
    assert 50_000 < server("PTTL", name_of("short")) <= 60_000
    assert problems == []


def test_a_turn_is_kept_as_long_as_its_conversation_is_remembered():
    """Unless the environment decides."""
    environ = {settings.PREFIX + "STORE": URL}
    assert settings.store_from_environment(environ, KEY, remembers=700_000.0)[0].expiry == 700_000
    environ[settings.PREFIX + "STORE_EXPIRY"] = "60"
    assert settings.store_from_environment(environ, KEY, remembers=700_000.0)[0].expiry == 60


@pytest.mark.parametrize("text", ["0", "-1", "a day", "1e3", "9" * 30, "31536001"])
def test_a_wrong_expiry_is_a_mistake_and_the_default_holds(text):
    store, (problem,) = found(STORE=URL, STORE_EXPIRY=text)
    assert "it must be a whole number of seconds, up to 31536000; going on with 86400" in problem
    assert store.expiry == 86_400
