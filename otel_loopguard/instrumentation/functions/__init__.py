"""Guard functions without a framework: ``tool``, ``call``, and the kinds of result that a function may return."""
