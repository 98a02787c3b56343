"""A program's side of the engine: guards and their turns, with locks, clocks, functions of the policy, and texts."""
