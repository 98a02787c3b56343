"""The budgets of the design, measured side by side in one run; ratios are what counts."""
