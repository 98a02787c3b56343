"""The tables of modes in the README and on the pages, made from the rows of the detectors.

``python -m tests.docs.mode_tables`` writes them. A table keeps the order of its rows; a new mode comes last.
"""

from __future__ import annotations

import re
from pathlib import Path

from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import schema

ROOT = Path(__file__).resolve().parents[2]


def _defaults(row) -> tuple[str]:
    return (", ".join(f"`{name} = {value}`" for name, value in row.default.settings.items()),)


def _settings() -> dict[str, tuple[str, ...]]:
    found = {}
    for name, setting in schema.RULE.items():
        modes = ", ".join(f"`{mode}`" for mode in schema.OF_MODES.get(name, ())) or "every mode"
        found[name] = (modes, setting.description, setting.meaning)
    return found


TABLES = {
    ("README.md", "| mode | the agent ... | nudged | refused |"): {
        mode: (row.about.agent, row.about.told, row.about.refused) for mode, row in ROWS.items()
    },
    ("docs/how-it-decides.md", "| mode | trips when | told | refused |"): {
        mode: row.about.precisely for mode, row in ROWS.items() if row.about.precisely
    },
    ("docs/runbooks/trip-spike.md", "| mode | usual cause |"): {mode: (row.about.cause,) for mode, row in ROWS.items()},
    ("docs/policy.md", "| setting | of | takes | meaning |"): _settings(),
    ("docs/policy.md", "| mode | |"): {mode: _defaults(row) for mode, row in ROWS.items()},
}
"""By file and first line: the cells of each row, by what is in its first cell."""


def written(text: str, head: str, rows: dict[str, tuple[str, ...]]) -> str:
    """Return a page with these rows in its table. Rows of anything else stay as they are."""
    before, line, rest = text.partition(f"{head}\n")
    assert line, f"no table {head}"
    rule, *lines = rest.split("\n\n", 1)[0].splitlines()
    made = {f"`{name}`": " | ".join((f"| `{name}`", *cells)) + " |" for name, cells in rows.items()}
    kept = [made.pop(re.match(r"\| (`\w+`|)", row)[1], row) for row in lines]
    after = rest.split("\n\n", 1)[1:]
    return "\n\n".join([before + line + "\n".join([rule, *kept, *made.values()]), *after])


def main() -> None:
    """Write all tables."""
    for (name, head), rows in TABLES.items():
        page = ROOT / name
        page.write_text(written(page.read_text("utf-8"), head, rows), "utf-8")


if __name__ == "__main__":
    main()
