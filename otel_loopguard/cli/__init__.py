"""The command line: ``otel-loopguard``."""
