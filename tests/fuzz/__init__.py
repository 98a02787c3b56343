"""Coverage-guided fuzzing of all code that reads what others wrote: ``python -m tests.fuzz``."""
