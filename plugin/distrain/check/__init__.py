"""Does a job fit: the pure part of `helm distrain check`."""
