"""Run traces on the package that comes first on PYTHONPATH. A trace is a line of JSON, so is what was seen of it."""

from __future__ import annotations

import json
import logging
import sys

import otel_loopguard
from tests.engine.compare.driver import Trace, run

if __name__ == "__main__":
    logging.disable()
    answers, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(otel_loopguard.__file__), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run(Trace(*json.loads(line)))), file=answers, flush=True)
