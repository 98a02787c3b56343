"""The kind and the contract of a tool."""
