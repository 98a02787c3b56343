"""A campaign that tries to break the promises: faults, leaks, load, signals, forks, copies, hostile values."""
