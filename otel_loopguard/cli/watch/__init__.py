"""``otel-loopguard watch``: run a program, refuse nothing, and report the loops that it made."""
