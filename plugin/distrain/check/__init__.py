"""Judge whether a job fits a cluster, for `helm distrain check`."""
