"""The small world of the demo's agent: files in a folder, a job queue, a search, a deployment, a shop.

The tools are typed and documented, as frameworks require. A tool that fails raises ``ToolFailedError``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from otel_loopguard.testing.scripted import ToolFailedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {
    "config.yaml": "retries: 3\ntimeout: 20\n",
    "main.py": "total = 2 +\nprint(total)\n",
    "notes.txt": "Ask Ada about the timeout.\n",
    **{f"chapter_{number}.md": f"Chapter {number}: so far nobody has found a title.\n" for number in range(1, 11)},
}


class World:
    """The state that the tools share: each tool sees the changes of those before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, text in FILES.items():
            (folder / name).write_text(text, "utf-8")
        self._asked = itertools.count(1)
        self._numbers = itertools.count(1041)

    def tools(self) -> dict[str, Callable[..., str]]:
        """The tools by name."""
        tools: tuple[Callable[..., str], ...] = (
            self.read_file, self.write_file, self.run_tests, self.search_docs, self.fetch_page, self.start_job,
            self.get_job_status, self.deploy, self.get_logs, self.create_ticket, self.place_order, self.find_person,
        )  # fmt: skip
        return {tool.__name__: tool for tool in tools}

    def read_file(self, path: str) -> str:
        """Read a file of the project."""
        file = self._folder / path
        if not file.is_file():
            raise ToolFailedError(f"there is no file '{path}'")
        return file.read_text("utf-8")

    def write_file(self, path: str, text: str) -> str:
        """Write a file of the project."""
        (self._folder / path).write_text(text, "utf-8")
        return "ok"

    def run_tests(self, path: str) -> str:
        """Compile a file of the project and report its first error."""
        try:
            compile((self._folder / path).read_text("utf-8"), path, "exec")
        except SyntaxError as error:
            return f"1 failed: {path} line {error.lineno}: {error.msg}"
        return "1 passed"

    def search_docs(self, query: str) -> str:
        """Search the project's documents for a line that has all words of the query."""
        words = query.lower().split()
        found = [
            f"{file.name}: {line}"
            for file in sorted(self._folder.glob("*.md"))
            for line in file.read_text("utf-8").splitlines()
            if all(word in line.lower() for word in words)
        ]
        return "\n".join(found) or "no documents found"

    def fetch_page(self, number: int) -> str:
        """Fetch a page of the catalogue."""
        return f"page {number}: item {number * 7} and item {number * 11}"

    def start_job(self, name: str) -> str:
        """Put a job into the queue."""
        return f"job {name} is queued"

    def get_job_status(self, job: str) -> str:
        """Report the progress of a job. The one called `nightly` never starts."""
        done = next(self._asked) * 8
        if job == "nightly":
            return f"{job}: queued"
        return f"{job}: done" if done >= 40 else f"{job}: running, {done} of 40 rows"

    def deploy(self, version: str) -> str:
        """Deploy a version."""
        raise ToolFailedError(f"quota exceeded, version '{version}' was not deployed")

    def get_logs(self, service: str) -> str:
        """Fetch the last lines of a service's log."""
        raise ToolFailedError(f"permission denied for the log of '{service}'")

    def create_ticket(self, title: str) -> str:
        """Open a ticket at the support desk."""
        return f"ticket T-{next(self._numbers)} was opened: {title}"

    def find_person(self, name: str) -> str:
        """Find a person in the address book, which is empty."""
        return f"No entry for {name}. The address book is empty: an administrator has to import it before it is of use."

    def place_order(self, item: str, quantity: int) -> str:
        """Order something."""
        return f"order {next(self._numbers)} was placed: {quantity} x {item}"
