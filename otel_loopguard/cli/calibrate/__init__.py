"""``otel-loopguard calibrate``: a policy from good runs, proven on runs that were held out."""
