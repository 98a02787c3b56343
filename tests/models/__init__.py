"""A local server that speaks the APIs of model providers, programs that talk to it, and tests of them."""
