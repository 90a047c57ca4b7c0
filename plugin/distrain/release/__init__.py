"""What changes a cluster: install a release, and follow its start."""
