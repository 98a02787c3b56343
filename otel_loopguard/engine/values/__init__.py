"""Arguments and results: canonical bytes, fingerprints, and what two results have in common."""
