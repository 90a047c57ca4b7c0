"""The all-reduce test that `helm test` runs on every rank, with a module per framework."""
