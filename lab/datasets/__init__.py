"""Create training data for the tests, the demo and the benchmarks, without downloads."""
