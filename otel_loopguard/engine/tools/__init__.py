"""What a tool does: its contract, its kind, and the words of names and commands by which a kind is found."""
