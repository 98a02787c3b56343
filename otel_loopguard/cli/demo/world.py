"""The small world of the demo's agents: some files in memory, a job queue, and services that only answer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Tools: TypeAlias = Mapping[str, Callable[..., str]]

_FILES = {
    "config.yaml": "retries: 3\ntimeout: 20\n",
    "main.py": "total = 2 +\nprint(total)\n",
    "notes.txt": "Ask Ada about the timeout.\n",
    **{f"chapter_{number}.md": f"Chapter {number}: so far nobody has found a title.\n" for number in range(1, 11)},
}
_ANSWERS = {
    "search_docs": "no documents found",
    "fetch_page": "page {number}: item {number}7 and item {number}9",
    "start_job": "job {name} is queued",
    "deploy": "Error: quota exceeded, version '{version}' was not deployed",
    "get_logs": "Error: permission denied for the log of '{service}'",
    "create_ticket": "ticket T-{id} was opened: {title}",
    "find_person": "No entry for {name}. The address book is empty: an administrator has to import it before it is "
    "of use.",
    "place_order": "order {id} was placed: {quantity} x {item}",
}
"""The answer of each service, from its arguments; each answer has another ``id``."""


def make_tools() -> Tools:
    """Make a new world, and return its tools by name. Each sees the changes that earlier calls made."""
    files, ids, rows = dict(_FILES), itertools.count(1041), itertools.count(8, 8)

    def read_file(path: str) -> str:
        """Read a file of the project."""
        return files.get(path, f"Error: there is no file '{path}'")

    def write_file(path: str, text: str) -> str:
        files[path] = text
        return "ok"

    def run_tests(path: str) -> str:
        try:
            compile(files[path], path, "exec")
        except SyntaxError as error:
            return f"1 failed: {path} line {error.lineno}: {error.msg}"
        return "1 passed"

    def get_job_status(job: str) -> str:
        if job == "nightly":  # it is never started
            return f"{job}: queued"
        done = next(rows)
        return f"{job}: done" if done >= 40 else f"{job}: running, {done} of 40 rows"

    def answering(text: str) -> Callable[..., str]:
        def answer(**arguments: Any) -> str:
            return text.format(id=next(ids), **arguments)

        return answer

    services = {name: answering(text) for name, text in _ANSWERS.items()}
    return {tool.__name__: tool for tool in (read_file, write_file, run_tests, get_job_status)} | services
