"""Name what keeps a run from going on, and the next step."""
