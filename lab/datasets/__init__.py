"""Training data for the tests, the demo and the benchmarks. None of it is downloaded."""
