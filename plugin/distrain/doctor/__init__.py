"""Examine a cluster for `helm distrain doctor`: report its parts, and the missing parts that a job would need."""
