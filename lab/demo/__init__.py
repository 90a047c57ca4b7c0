"""Run `make demo`: a distributed training, from a machine without any of its programs to a model in S3."""
