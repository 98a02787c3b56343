"""Stops LLM agents that loop."""
