"""The seed of a test run: drawn for each run, shown on failure, repeated with LOOPGUARD_TEST_SEED."""

from __future__ import annotations

import os
import random

SEED = int(os.environ.get("LOOPGUARD_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
HINT = f"repeat with LOOPGUARD_TEST_SEED={SEED}"
