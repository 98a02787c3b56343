"""Which turn a tool call belongs to."""
