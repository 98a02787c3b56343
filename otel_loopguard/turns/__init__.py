"""Attribute each tool call to a turn."""
