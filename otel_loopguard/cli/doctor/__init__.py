"""``otel-loopguard doctor``: is this environment, or this app, really guarded; and what to do if not."""
