"""Guard coding agents, which are no Python programs, by the hooks that they call before and after each tool."""
