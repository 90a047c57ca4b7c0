"""Predict the time of a training step, and of a whole run, for other numbers of workers."""
