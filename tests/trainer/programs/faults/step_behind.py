"""Replaces a PyTorch program on every rank. One batch is bad, as in bad_batch.py.

With the argument --ahead, read the outcome of a step after the next step has begun, as on a GPU. Without --ahead, read
the outcome of each step immediately.
"""

from __future__ import annotations

import importlib
import sys

importlib.import_module("bad_batch")  # Import this before the program, because it patches the data layer.
training = importlib.import_module("distrain_trainer.pytorch.training")

if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--ahead"]
    training.Computer.steps_ahead = int(len(arguments) < len(sys.argv) - 1)
    importlib.import_module("distrain_trainer.__main__").main(arguments)
