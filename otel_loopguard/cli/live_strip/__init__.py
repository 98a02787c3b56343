"""The live strip: a row at the foot of the terminal with the tool calls of a program while it works."""
