"""The benchmarks of `make bench`, a module each."""
