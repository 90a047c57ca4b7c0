"""Validate what a pod stores and mounts: volumes, claims, and what volumes take from other objects."""
