"""Examine a cluster for `helm distrain doctor`: report its parts, and which parts a job needs that are missing."""
