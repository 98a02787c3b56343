"""``otel-loopguard demo``: an agent with a scripted model falls into each kind of loop, and is guarded for real."""
