"""``otel-loopguard replay``: recorded runs and exported spans, fed to a policy."""
