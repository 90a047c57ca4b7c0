"""Count how many of a job's pods fit on nodes. This package computes with numbers and knows no Kubernetes objects."""
