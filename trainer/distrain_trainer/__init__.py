"""What runs inside distrain's pods: trains one of its models and writes what came of it."""
