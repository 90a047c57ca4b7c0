"""Examine a cluster for `helm distrain doctor`: what it has, and what a job would miss."""
