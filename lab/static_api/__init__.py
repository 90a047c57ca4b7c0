"""Serve the API of a large, static cluster, for benchmarks and tests that read it."""
