"""Write docs/accuracy.md: python -m benchmarks.accuracy [--quick] [--check] [--corpora FOLDER]."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.accuracy.page import PAGE, figures, kept_weights, page
from benchmarks.exam import shared
from tests.engine.judges import corpus


def main() -> int:
    """Write the page, or compare it with the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, default=corpus.CORPORA)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the page would change")
    parser.add_argument("--quick", action="store_true", help="keep the weight of each part, which takes minutes")
    options = parser.parse_args()
    if not corpus.files(options.corpora):
        print(f"no corpora in {options.corpora}", file=sys.stderr)
        return 2
    if not shared.present():
        print(f"no second examination in {shared.FOLDER}", file=sys.stderr)
        return 2
    text = f"{figures(options.corpora)}\n\n{kept_weights()}" if options.quick else page(options.corpora)
    if options.check:
        return int(text != PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
