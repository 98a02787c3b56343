"""OpenTelemetry: names, the span processor, the instruments."""
