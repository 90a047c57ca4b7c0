"""Train a model inside distrain's pods, and write the trained model, its results and its log."""
