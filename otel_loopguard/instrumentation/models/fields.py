"""Read the fields of requests and replies, which are plain dicts or the objects of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def field(value: Any, name: str) -> Any:
    """Return an item of a dict or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def sequence(value: Any) -> Sequence[Any]:
    """Return a list or tuple as it is, and () for anything else: an iterator belongs to the program."""
    return value if isinstance(value, (list, tuple)) else ()


def count(usage: Any, name: str) -> int | None:
    """Return a number of tokens from the usage of a reply; None if the provider does not give this one.

    Some dialects add two of them up, so a value that is none, such as ``True`` or -1, is left out here.
    """
    found = field(usage, name)
    return found if type(found) is int and found >= 0 else None


def demands_call(body: Mapping[str, Any]) -> bool:
    """Return True if the choice of a request to OpenAI demands a call."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        choice = choice.get("mode") or field(choice.get("allowed_tools"), "mode")
    if isinstance(choice, dict):
        return choice.get("type") not in ("auto", "none")  # as Anthropic writes it, which some programs send by LiteLLM
    return choice in ("required", "any") or isinstance(body.get("function_call"), dict)
