"""Warn of values that a cluster accepts, although they make a run slow or let its ranks fail later."""
