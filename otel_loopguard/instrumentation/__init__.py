"""Patch the tool executors of agent frameworks, so that the guard decides about each call."""
