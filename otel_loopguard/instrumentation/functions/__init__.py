"""Guard functions without a framework: the decorator, and the kinds of result a function may give."""
