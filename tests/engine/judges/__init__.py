"""Judges of the detection core: a naive reference, canonical traces, real runs. Written from the design alone."""
