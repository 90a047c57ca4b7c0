"""Test all-reduce on every rank, for `helm test`. Each framework has its own module."""
