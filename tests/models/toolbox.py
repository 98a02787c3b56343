"""The tools that the programs give to the model: plain functions with annotations and a docstring.

Without ``from __future__ import annotations``: the first google-genai reads annotations as they are.
"""

import inspect
from collections.abc import Callable
from typing import Any


class Toolbox:
    """A folder of files and a search, and a list of what was run."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, dict[str, str]]] = []
        self._files = {f"{name}.txt": f"This is file {name}.\nIts owner is Ada." for name in "abcdefgh"}

    def functions(self) -> dict[str, Callable[..., str]]:
        """The tools by name. They are no methods: a client may copy a method with its object."""

        def read_file(path: str) -> str:
            """Read a file of the project.

            Args:
                path: The name of the file.

            """
            self.runs.append(("read_file", {"path": path}))
            return self._files.get(path, f"There is no file {path}.")

        def write_file(path: str, text: str) -> str:
            """Write a file of the project.

            Args:
                path: The name of the file.
                text: The whole text of the file.

            """
            self.runs.append(("write_file", {"path": path, "text": text}))
            self._files[path] = text
            return f"{len(text)} characters were written."

        def search(query: str) -> str:
            """Search the files of the project for a text.

            Args:
                query: The text.

            """
            self.runs.append(("search", {"query": query}))
            return ", ".join(name for name, text in self._files.items() if query in text) or "nothing found"

        return {tool.__name__: tool for tool in (read_file, write_file, search)}

    def run(self, name: str, arguments: dict[str, Any]) -> str:
        """Run the tool of that name, as a program does that looks tools up in a table."""
        function = self.functions().get(name)
        return function(**arguments) if function else f"Error: there is no tool {name}."


def described(tools: Toolbox) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and JSON schema of each tool."""
    return [(name, inspect.getdoc(one) or "", schema(one)) for name, one in tools.functions().items()]


def schema(function: Callable[..., str]) -> dict[str, Any]:
    """The JSON schema of a function whose arguments are texts."""
    names = list(inspect.signature(function).parameters)
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
