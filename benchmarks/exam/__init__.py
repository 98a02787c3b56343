"""An examination of the default policy: agents that work and agents that are stuck, drawn from a seed."""
