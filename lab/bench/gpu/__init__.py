"""`make bench-gpu`: compare the trainer on one GPU with the fastest loop that PyTorch allows (__main__.py)."""
