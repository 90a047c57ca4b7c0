"""Training with PyTorch: the programs ddp.py (DistributedDataParallel) and horovod.py."""
