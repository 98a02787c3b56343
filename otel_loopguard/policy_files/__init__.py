"""Policies in files and in the environment: find them, read them, watch them for changes."""
