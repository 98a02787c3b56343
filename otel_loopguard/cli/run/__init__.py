"""The command ``run``: start a program with the guard on."""
