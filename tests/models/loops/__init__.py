"""Agents written by hand, as in each vendor's documentation: one file a client, and one function a way of asking.

They know nothing of the guard. ``python -m tests.models.loops openai.chat URL QUESTION`` runs one as a program.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import tests.quiet_vendors  # noqa: F401 - before a client
from tests.models.toolbox import described

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.models.conversation import Call
    from tests.models.toolbox import Toolbox
    from tests.models.wire import Wire

    Step = tuple[list[Any], list[Call], str]
    """A reply: what the next request has of it, its calls, and its text."""
    Results = Callable[..., list[Any]]
    """Write the entries of results, each of a call and a text."""

MODULES = {"openai": "openai", "anthropic": "anthropic", "google_genai": "google.genai", "litellm": "litellm"}
SYSTEM = "You work with the files of a project."


def loops_of(client: str) -> dict[str, Callable[..., object]]:
    """The loops over a client by their names; those that this version of the client can run."""
    return {f"{client}.{one.__name__}": one for one in import_module(f"{__name__}.{client}").LOOPS}


def installed() -> dict[str, Callable[..., object]]:
    """The loops over all clients that are installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: loop for client in filter(_is_there, MODULES) for name, loop in loops_of(client).items()}


def _is_there(client: str) -> bool:
    try:
        return find_spec(MODULES[client]) is not None
    except ModuleNotFoundError:  # the parent of the module is not there
        return False


def run(loop: Callable[..., object], url: str, question: str, tools: Toolbox) -> str:
    """Run a loop, sync or async, and return the answer."""
    ended = loop(url, question, tools)
    return str(asyncio.run(ended) if inspect.iscoroutine(ended) else ended)


def declared(wire: Wire, tools: Toolbox) -> list[Any]:
    """Declare the tools on an API."""
    return [wire.tool(*one) for one in described(tools)]


def talk(results: Results, entries: list[Any], tools: Toolbox, ask: Callable[[list[Any]], Step]) -> str:
    """Ask until the model answers without a call."""
    while True:
        written, calls, text = ask(entries)
        if not calls:
            return text
        entries += [*written, *results(*((one, tools.run(one.name, one.arguments)) for one in calls))]


async def atalk(
    results: Results, entries: list[Any], tools: Toolbox, ask: Callable[[list[Any]], Awaitable[Step]]
) -> str:
    """Ask until the model answers without a call, in async code."""
    while True:
        written, calls, text = await ask(entries)
        if not calls:
            return text
        entries += [*written, *results(*((one, tools.run(one.name, one.arguments)) for one in calls))]
