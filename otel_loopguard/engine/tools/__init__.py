"""Tools: contracts, kinds, and the words that they are found by."""
