r"""Change a JSON file that a person edits, and keep all else in it: comments, order, blanks and trailing commas.

>>> text = '{ "a": [1], // mine' + chr(10) + '}'
>>> appended(text, ("a",), 2)
'{ "a": [1, 2], // mine\n}'
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_BLANK: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD: Final = re.compile(r"[^\s,\]}/]+")
_INDENT: Final = 2


@dataclass
class Node:
    """A value, and its place in the text."""

    start: int
    end: int = 0
    value: Any = None
    """The value of a word or a string."""
    members: dict[str, Node] | None = None
    """Those of an object."""
    items: list[Node] | None = None
    """Those of a list."""
    keys: dict[str, int] = field(default_factory=dict)
    """The places of the keys of an object."""

    @property
    def plain(self) -> Any:
        """The value as Python has it."""
        if self.members is not None:
            return {key: node.plain for key, node in self.members.items()}
        return self.value if self.items is None else [node.plain for node in self.items]


def parsed(text: str) -> Node:
    """Return the value of a text. Raise ``ValueError`` with the line if it is no JSON with comments."""
    reader = _Reader(text)
    node = reader.value(reader.skip(0))
    if reader.skip(node.end) != len(text):
        raise reader.wrong(node.end)
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """Return the next place that is no blank and no comment."""
        found = _BLANK.match(self._text, at)
        return at if found is None else found.end()

    def wrong(self, at: int) -> ValueError:
        """Return the error for this place."""
        return ValueError(f"line {self._text.count(chr(10), 0, at) + 1} is no JSON")

    def value(self, at: int) -> Node:
        """Read the value at a place."""
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at)
        if opening == "[":
            return self._list(at)
        found = (_STRING if opening == '"' else _WORD).match(self._text, at)
        if found is None:
            raise self.wrong(at)
        try:
            return Node(at, found.end(), json.loads(found[0]))
        except ValueError:
            raise self.wrong(at) from None

    def _object(self, at: int) -> Node:
        members: dict[str, Node] = {}
        node = Node(at, members=members)

        def member(at: int) -> int:
            key = self.value(at)
            colon = self.skip(key.end)
            if not isinstance(key.value, str) or self._text[colon : colon + 1] != ":":
                raise self.wrong(colon)
            members[key.value] = found = self.value(self.skip(colon + 1))
            node.keys[key.value] = at
            return found.end

        node.end = self._all(at, "}", member)
        return node

    def _list(self, at: int) -> Node:
        items: list[Node] = []
        node = Node(at, items=items)

        def item(at: int) -> int:
            items.append(self.value(at))
            return items[-1].end

        node.end = self._all(at, "]", item)
        return node

    def _all(self, at: int, closing: str, one: Callable[[int], int]) -> int:
        """Read what is between brackets, one after the other; return the place behind the closing one."""
        at = self.skip(at + 1)
        while self._text[at : at + 1] != closing:
            at = self.skip(one(at))
            if self._text[at : at + 1] == ",":
                at = self.skip(at + 1)
            elif self._text[at : at + 1] != closing:
                raise self.wrong(at)
        return at + 1


def appended(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with a value at the end of the list at this path. What is missing of the path is added.

    Raise ``ValueError`` if something else is there than objects and a list.
    """
    if not text.strip():
        text = "{}\n"
    node, depth = parsed(text), 0
    while depth < len(path) and node.members is not None and path[depth] in node.members:
        node = node.members[path[depth]]
        depth += 1
    if (depth == len(path) and node.items is None) or (depth < len(path) and node.members is None):
        where = ".".join(path[:depth]) or "the file"
        wanted = "a list" if depth == len(path) else "an object"
        raise ValueError(f"{where} is not {wanted}")
    if depth == len(path):
        return _into(text, node, "", value)
    for key in reversed(path[depth + 1 :]):
        value = {key: [value] if key == path[-1] else value}
    if depth + 1 == len(path):
        value = [value]
    return _into(text, node, path[depth], value)


def _into(text: str, node: Node, key: str, value: Any) -> str:
    """Return the text with one more member or item at the end of a value."""
    inner = list((node.members or {}).values()) or list(node.items or ())
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    outer = line[: len(line) - len(line.lstrip())]
    is_flat = bool(inner) and "\n" not in text[node.start : node.end]
    pad = outer + " " * _INDENT
    if inner:
        first = min(node.keys.values()) if node.keys else inner[0].start
        before = text[text.rfind("\n", 0, first) + 1 : first]
        pad = before if not before.strip() else pad
    shown = json.dumps(value, ensure_ascii=False, indent=None if is_flat else _INDENT)
    name = f"{json.dumps(key)}: " if key else ""
    shown = name + shown.replace("\n", f"\n{pad}")
    if not inner:
        return f"{text[: node.start + 1]}\n{pad}{shown}\n{outer}{text[node.end - 1 :]}"
    last = inner[-1].end
    reader = _Reader(text)
    comma = reader.skip(last)
    has_comma = text[comma] == ","
    gap = " " if is_flat else f"\n{pad}"
    if has_comma:
        return f"{text[: comma + 1]}{gap}{shown},{text[comma + 1 :]}"
    return f"{text[:last]},{gap}{shown}{text[last:]}"


def without(text: str, path: tuple[str, ...], is_ours: Callable[[Any], bool]) -> str:
    """Return the text without the items of the list at this path that are ours, and without what is empty then.

    ``is_ours``: asked with each item, as Python has it.
    """
    while True:
        nodes = [parsed(text)]
        for key in path:
            members = nodes[-1].members
            if members is None or key not in members:
                return text
            nodes.append(members[key])
        items = nodes[-1].items
        found = None if items is None else next((one for one in items if is_ours(one.plain)), None)
        if items is None or found is None:
            return text
        if len(items) > 1:
            text = _cut(text, found.start, found.end)
            continue
        # The list is ours alone: it goes, and each object that has nothing else.
        for depth in range(len(path), 0, -1):
            owner, key = nodes[depth - 1], path[depth - 1]
            members = owner.members or {}
            if len(members) > 1 or depth == 1:
                text = _cut(text, owner.keys[key], members[key].end)
                break


def _cut(text: str, start: int, end: int) -> str:
    """Return the text without a member or item, and without one comma beside it."""
    head, behind = text[:start].rstrip(), _Reader(text).skip(end)
    is_first, has_comma = not head.endswith(","), text[behind : behind + 1] == ","
    if has_comma and is_first:
        return text[:start] + text[behind + 1 :].lstrip()
    if has_comma:
        return head + text[behind + 1 :]
    if not is_first:
        return head[:-1] + text[end:]
    return head + text[end:].lstrip() if head.endswith(("{", "[")) else text[:start] + text[end:]
