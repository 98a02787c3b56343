"""All families; to import it registers them."""

from __future__ import annotations

from benchmarks.exam import stuck_elsewhere, stuck_in_code, working_elsewhere, working_in_code
from benchmarks.exam.trace import FAMILIES

MODULES = (stuck_in_code, stuck_elsewhere, working_in_code, working_elsewhere)
ALL = FAMILIES
