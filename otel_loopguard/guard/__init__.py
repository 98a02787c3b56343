"""What a program needs around the engine: guards and turns, with locks, clocks, the user's functions and texts."""
