"""Read the tool spans of any instrumentation, live and recorded."""
