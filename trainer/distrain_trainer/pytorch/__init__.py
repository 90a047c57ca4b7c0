"""Train with PyTorch: the programs are ddp.py (DistributedDataParallel) and horovod.py."""
