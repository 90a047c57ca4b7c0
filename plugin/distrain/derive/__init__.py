"""Derive values from a total number of GPUs, for `helm distrain derive`."""
