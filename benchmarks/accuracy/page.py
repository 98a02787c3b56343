"""Put the page together."""

from __future__ import annotations

from pathlib import Path

from benchmarks import ablation
from benchmarks.accuracy import canonical, examined, peer_rules, recorded
from tests.engine.judges import corpus

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"

HEAD = """# Accuracy

`python -m benchmarks.accuracy` measures and writes this page; nothing is written by hand.

## What this page cannot show

- **No error rates of practice.** The traces of the examinations and the canonical traces are picked to be hard, and
  drawn by people who know the rule. Their shares compare versions and rules with each other. They do not tell how
  often a working agent is refused a call in production: measure that with `otel-loopguard replay` on recorded runs, or
  with `action = "observe"`.
- **No reactions.** Recorded and drawn agents do not read nudges and refusals. A real model may obey, or find another
  way to loop.
- **No coding runs.** There are none among the recorded runs. In coding, identical calls are mostly legitimate. Only
  drawn traces have them.
- **Few labels.** {labels} repeats are labelled by hand. Most failed runs fail for other reasons than loops, so that the
  share of failed runs that are refused a call says little.
- **No other system as it runs.** The rules of others are restated from their sources, without the parts that read more
  than tool calls, and with their own lists of tool names, which fit their own tools.

"""


def page(folder: Path) -> str:
    """Return the whole page."""
    return f"{figures(folder)}\n\n{ablation.section()}\n"


def kept_weights() -> str:
    """Return the last section, with the table as the page has it."""
    text = PAGE.read_text("utf-8")
    return f"{ablation.HEAD}\n{text[text.index('| left out | the rule') :]}"


def figures(folder: Path) -> str:
    """Return the page without its last section, which takes minutes."""
    runs = [run for path in corpus.files(folder) for run in corpus.runs(path)]
    labels = corpus.labels(folder)
    drawn = examined.traces()
    sections = (
        HEAD.format(labels=len(labels)).rstrip(),
        recorded.section(runs, labels),
        canonical.section(),
        examined.section(drawn),
        peer_rules.section(drawn, runs, labels),
    )
    return "\n\n".join(sections)
