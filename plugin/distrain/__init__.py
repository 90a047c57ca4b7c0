"""`helm distrain`: size a distributed training job, see whether it fits a cluster, and install it."""

__version__ = "0.1.0"
