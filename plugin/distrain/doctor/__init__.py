"""What the cluster has and lacks: `helm distrain doctor`."""
