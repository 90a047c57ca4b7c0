"""Serve the API of a large cluster that never changes, for benchmarks and tests that read it."""
