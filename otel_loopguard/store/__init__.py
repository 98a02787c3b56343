"""The shared store: turns whose steps run in several processes, on a Redis or Valkey server."""
