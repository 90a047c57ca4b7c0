"""Write and read a snapshot: the objects of a cluster in a file, for a check without the cluster."""
