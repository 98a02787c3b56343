"""The patches that make the tool executors of agent frameworks ask the guard."""
