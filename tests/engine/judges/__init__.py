"""Canonical traces, recorded runs, and what is measured of a judge on them: the guard, or the naive reference."""
