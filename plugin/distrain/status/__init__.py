"""Describe the state of a run: its phase, its figures, what it is waiting for, and what to do next."""
