"""One framework a file; none of them knows another."""
