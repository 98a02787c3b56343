"""``otel-loopguard test-from``: write a test for each loop of a recording."""
