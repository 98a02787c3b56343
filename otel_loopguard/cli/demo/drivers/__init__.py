"""The ways to run the demo's agent: by hand, or by a framework. A framework is imported only if it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.cli.demo.model import Model

    Run = Callable[[Mapping[str, Callable[..., str]], Model], None]


class Driver(NamedTuple):
    """A framework: its module with ``run(tools, model)``, what has to be importable, and how it is installed."""

    module: str
    needs: tuple[str, ...] = ()
    install: str = ""


BY_HAND = "by-hand"
DRIVERS = {
    BY_HAND: Driver("by_hand"),
    "langchain": Driver("langchain", ("langchain", "langgraph"), "langchain langgraph"),
    "openai-agents": Driver("openai_agents", ("agents",), "openai-agents"),
    "pydantic-ai": Driver("pydantic_ai", ("pydantic_ai",), "pydantic-ai-slim"),
    "mcp": Driver("mcp", ("mcp",), "mcp"),
}


def missing(name: str) -> list[str]:
    """What has to be installed first."""
    return [module for module in DRIVERS[name].needs if find_spec(module) is None]


def load(name: str) -> Run:
    """The function that runs an agent with this framework; an error that names the command, if it is not there."""
    driver = DRIVERS[name]
    if missing(name):
        raise LoopGuardError(f"{name} is not installed here; install it first: pip install {driver.install}")
    try:
        run: Run = import_module(f"{__name__}.{driver.module}").run
    except ImportError as error:
        raise LoopGuardError(
            f"{name} is installed here, but not in a version that the demo can use ({error}); "
            f"install a newer one: pip install --upgrade {driver.install}"
        ) from error
    return run
