"""Run as a rank of a PyTorch program, with the bad batch of bad_batch.py.

With the argument --ahead, read a step's outcome after the next one has begun, as on a GPU; otherwise at once.
"""

from __future__ import annotations

import importlib
import sys

importlib.import_module("bad_batch")  # Before the program is imported.
training = importlib.import_module("distrain_trainer.pytorch.training")

if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--ahead"]
    training.Computer.steps_ahead = int(len(arguments) < len(sys.argv) - 1)
    importlib.import_module("distrain_trainer.__main__").main(arguments)
