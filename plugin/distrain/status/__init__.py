"""Describe the state of a run: its phase, its figures, what it waits for, and what to do next."""
