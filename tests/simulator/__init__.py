"""A deterministic simulator: processes, a store, a gateway, agents, users and a clock in one thread, from one seed.

``python -m tests.simulator`` plays as many seeds as you like.
"""
