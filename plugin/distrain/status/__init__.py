"""Say how a run is doing: its phase, its figures, what it waits for, and what to do next."""
