"""Write spans, events and metrics to OpenTelemetry."""
