"""Options that several commands have, and their numbers: a wrong number is reported with its rule."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from otel_loopguard.policy_files.load import preset_names

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_MEGABYTES = 1 << 20


def add_policy_choice(which: argparse._MutuallyExclusiveGroup) -> None:
    """Add ``--preset`` and ``--policy`` to a group of arguments, of which a user gives one."""
    which.add_argument("--preset", metavar="NAME", help=f"judge by this preset: {', '.join(preset_names())}")
    which.add_argument(
        "--policy", metavar="FILE", help="judge by this policy file (default: the policy of the environment)"
    )


def parse_number(text: str, fits: Callable[[float], bool], rule: str) -> float:
    """Return the number that a text is. Raise an error that ends in the rule if it is none, or does not fit.

    >>> parse_number("90", lambda found: found < 60, "must be below 60 seconds")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '90' must be below 60 seconds
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan  # fits nowhere
    if not fits(found):
        raise argparse.ArgumentTypeError(f"{text!r} {rule}")
    return found


def megabytes(text: str) -> int:
    """Return the bytes of a number of megabytes, such as 16 or 0.5."""
    rule = "must be a number of megabytes above 0, such as 16 or 0.5"
    return int(parse_number(text, lambda found: 1 / (1 << 20) <= found < _MOST_MEGABYTES, rule) * (1 << 20))
