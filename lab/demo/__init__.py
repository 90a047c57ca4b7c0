"""Run `make demo`: from a machine without anything to a model in S3 that was trained on several workers."""
