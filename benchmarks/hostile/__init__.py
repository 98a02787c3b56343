"""Values made to be slow, given to the guard in every place: python -m benchmarks.hostile."""
