"""Count the pods of a job that fit on nodes: numbers in, counts out. Knows nothing of Kubernetes."""
