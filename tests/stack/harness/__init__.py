"""Starts the real programs of the stack on free loopback ports, and talks to them."""
