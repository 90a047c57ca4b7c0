"""Name what prevents a run from continuing, and the next step."""
