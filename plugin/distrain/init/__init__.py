"""A values file to start from."""
