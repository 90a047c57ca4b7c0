"""`make bench-gpu`: compare the trainer on one GPU with the fastest training loop that PyTorch allows."""
