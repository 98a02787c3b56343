"""The tables of modes and settings on the pages, made from detectors' rows and the policy's schema.

``python -m tests.docs.mode_tables`` writes them. A table keeps the order of its rows; a new one comes last. Further
cells of a row, such as the meaning of a policy's setting, are written by hand and kept.
"""

from __future__ import annotations

from pathlib import Path

from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.settings import ACTION, COUNT, FLAG, SECONDS, SHARE
from otel_loopguard.engine.vocabulary import Action

ROOT = Path(__file__).resolve().parents[2]
TAKES = {
    setting.description: word
    for word, setting in {"count": COUNT, "seconds": SECONDS, "share": SHARE, "flag": FLAG, "action": ACTION}.items()
}
"""The words of the tables for what many settings take. The page on policies says what each of them means."""


def _defaults(row) -> tuple[str]:
    return (", ".join(f"`{name} = {value}`" for name, value in row.default.settings.items()),)


def _takes(setting) -> str:
    return TAKES.get(setting.description, setting.description.partition(" (")[0])


def _default(value) -> str:
    quote = '"' if isinstance(value, str | Action) else ""
    return "-" if value in (None, ()) else f"`{quote}{value}{quote}`"


def _settings() -> dict[str, tuple[str, ...]]:
    found = {}
    for name, setting in schema.RULE.items():
        modes = ", ".join(f"`{mode}`" for mode in schema.OF_MODES.get(name, ())) or "every mode"
        found[name] = (modes, _takes(setting), setting.meaning)
    return found


WITHOUT_WORDS = [mode for mode, row in ROWS.items() if row.about is None]
assert not WITHOUT_WORDS, f"no about in the row of: {WITHOUT_WORDS}"

TABLES = {
    ("docs/how-it-decides.md", "| mode | the agent ... | told | refused |"): {
        mode: (row.about.agent, row.about.told, row.about.refused) for mode, row in ROWS.items()
    },
    ("docs/how-it-decides.md", "| mode | trips when | told | refused |"): {
        mode: row.about.precisely for mode, row in ROWS.items() if row.about.precisely
    },
    ("docs/runbooks/trip-spike.md", "| mode | usual cause |"): {mode: (row.about.cause,) for mode, row in ROWS.items()},
    ("docs/policy.md", "| setting | default | takes | meaning |"): {
        name: (_default(getattr(Policy(), name)), _takes(setting)) for name, setting in schema.POLICY.items()
    },
    ("docs/policy.md", "| setting | takes | meaning |"): {
        name: (_takes(setting),) for name, setting in schema.CONTRACT.items()
    },
    ("docs/policy.md", "| price | takes | meaning |"): {
        name: (_takes(setting),) for name, setting in schema.PRICE.items()
    },
    ("docs/policy.md", "| account | takes | meaning |"): {
        name: (_takes(setting), setting.meaning) for name, setting in schema.BUDGETS["tree"].items()
    },
    ("docs/policy.md", "| setting | of | takes | meaning |"): _settings(),
    ("docs/policy.md", "| mode | |"): {mode: _defaults(row) for mode, row in ROWS.items()},
}
"""By file and first line: the cells of each row, by what is in its first cell."""


def written(text: str, head: str, rows: dict[str, tuple[str, ...]]) -> str:
    """Return a page with these rows in its table. Rows of anything else stay, and so do further cells of a row."""
    before, line, rest = text.partition(f"{head}\n")
    assert line, f"no table {head}"
    rule, *lines = rest.split("\n\n", 1)[0].splitlines()
    made, shown = {f"`{name}`": (f"`{name}`", *cells) for name, cells in rows.items()}, []
    for row in lines:
        there = row.removeprefix("| ").removesuffix(" |").split(" | ")
        cells = made.pop(there[0], ())
        shown.append((*cells, *there[len(cells) :]))
    table = ["| " + " | ".join(cells) + " |" for cells in (*shown, *made.values())]
    after = rest.split("\n\n", 1)[1:]
    return "\n\n".join([before + line + "\n".join([rule, *table]), *after])


def main() -> None:
    """Write all tables."""
    for (name, head), rows in TABLES.items():
        page = ROOT / name
        page.write_text(written(page.read_text("utf-8"), head, rows), "utf-8")


if __name__ == "__main__":
    main()
