"""Values made to be slow, and the places in which they reach the guard."""
