"""What a loop is, and what to do about it; knows no OpenTelemetry, no wrapt, no framework."""
