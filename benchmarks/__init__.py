"""Measurements. Each page of docs/ that has figures is made by the file or folder of its name."""
