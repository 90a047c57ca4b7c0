"""The benchmarks of `make bench`, one module each."""
