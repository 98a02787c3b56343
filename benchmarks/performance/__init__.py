"""The measurements of docs/performance.md, a file for each table."""
