"""The policy: its settings, its sources, and the mistakes in it."""
