"""Validate where pods may be placed: tolerations, affinity and topology spread."""
