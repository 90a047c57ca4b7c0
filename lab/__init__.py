"""Run a real Kubernetes on one Debian machine, for `make demo` and the cluster tests."""
