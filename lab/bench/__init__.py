"""Each module is one benchmark of `make bench`."""
