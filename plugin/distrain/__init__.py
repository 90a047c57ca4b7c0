"""`helm distrain`: see whether a distributed training job fits a cluster, and install it."""

__version__ = "0.1.0"
