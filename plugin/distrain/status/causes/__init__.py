"""Say what prevents a run from continuing, and what the user should do."""
