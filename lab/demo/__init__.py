"""Run `make demo`: a distributed training, from a bare machine to a model in S3."""
