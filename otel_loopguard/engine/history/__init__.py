"""The history of one turn, and the evidence of a loop in it."""
