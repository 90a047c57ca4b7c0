"""Warn of values that a cluster accepts and that make a run slow, or let its ranks fail later."""
