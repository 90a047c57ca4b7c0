"""Validate a pod's storage: volumes, mounts, claims, and the Secrets, ConfigMaps and tokens that volumes project."""
