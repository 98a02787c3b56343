"""The turn compared with the turn of an earlier commit, on drawn traces, and what this comparison would not notice."""
