"""Correct the environment in which ``opentelemetry-instrument`` starts the program. Only its entry point imports this.

The launcher imports the modules of the group ``opentelemetry_environment_variables`` before it becomes the program.
That is the only time at which a wrong name can still be left out: ``component_names`` has the reason.
"""

from __future__ import annotations

import os

from otel_loopguard.component_names import correct
from otel_loopguard.shield import Shield

with Shield()("launch"):
    correct(os.environ)
