"""Guard functions without a framework: the decorator, and the kinds of result that a function may give."""
