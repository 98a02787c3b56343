"""LiteLLM's proxy, run from its package in an environment of its own."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.environments import ENVIRONMENTS, environment
from tests.stack.harness.process import Program, free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.models.server import Server

OF_TESTS = ("pytest", "pytest-asyncio", "cloudpickle")
"""For the page, whose programs run in this environment."""
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_GATEWAY") == "1"
CALLBACK = "otel_loopguard.gateway.guard"
OPENAI, ANTHROPIC = "gpt-4.1", "claude-sonnet-4-5"
"""The models that the proxy offers."""
DOWN = "down"
"""A model that cannot be reached."""
KEY = "sk-local"
START = 240.0
"""Seconds in which the proxy is ready; it takes ten on an idle machine."""


@cache
def python() -> Path:
    """The Python of the proxy's environment, which ``.ci/gateway`` makes; without it the test is skipped."""
    if REQUIRED or (ENVIRONMENTS / "gateway" / "requirements.sha256").exists():
        return environment("gateway", ("litellm[proxy]", "opentelemetry-distro", "redis", *OF_TESTS))
    pytest.skip("LiteLLM's proxy is not installed here: .ci/gateway installs what these tests run")


class Proxy(Program):
    """A proxy on a free port in front of a provider; ``callback=""`` leaves the guard out.

    ``general`` and ``settings`` are added to ``general_settings`` and to the environment. ``instrumented`` starts it
    with ``opentelemetry-instrument``.
    """

    def __init__(
        self, folder: Path, provider: Server, *, callback: str = CALLBACK, general: dict[str, str] | None = None,
        instrumented: bool = False, **settings: str,
    ) -> None:  # fmt: skip
        (self.port,) = free_ports(1)
        config = folder / f"proxy-{self.port}.yaml"
        config.write_text(yaml.safe_dump(configuration(provider, callback, general or {})))
        litellm = str(python().with_name("litellm"))
        launcher = [str(python().with_name("opentelemetry-instrument")), "--"] if instrumented else []
        command = [*launcher, litellm, "--config", str(config), "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {
            "PYTHONPATH": str(folder),  # for modules that the configuration names
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no fetch at start
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            **settings,
        }
        super().__init__(command, folder / f"proxy-{self.port}.log", environment, f"{self.url}/health/liveliness")

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.port}"


def configuration(provider: Server, callback: str, general: dict[str, str]) -> dict[str, object]:
    """The proxy's configuration: two models of one provider, and the callback."""

    def model(name: str, kind: str, base: str) -> dict[str, object]:
        return {"model_name": name, "litellm_params": {"model": f"{kind}/{name}", "api_base": base, "api_key": "local"}}

    return {
        "model_list": [
            model(OPENAI, "openai", f"{provider.url}/v1"),
            model(ANTHROPIC, "anthropic", provider.url),
            model(DOWN, "openai", "http://127.0.0.1:9/v1"),
        ],
        "litellm_settings": {"callbacks": [callback] if callback else [], "num_retries": 0, "telemetry": False},
        "general_settings": {"master_key": KEY, **general},
    }
