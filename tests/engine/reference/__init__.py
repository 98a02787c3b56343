"""The naive reference: a second implementation of the rule, from the design alone, slow and without shared code."""
