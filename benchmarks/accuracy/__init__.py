"""The measurements of docs/accuracy.md, a section a file."""
