"""Run as a rank of a PyTorch program, with the bad batch of bad_batch.py.

With the argument --ahead, read a step's outcome after the next step has begun, as on a GPU. Otherwise read the outcome
immediately.
"""

from __future__ import annotations

import importlib
import sys

importlib.import_module("bad_batch")  # This patches the data layer, so it precedes the program's import.
training = importlib.import_module("distrain_trainer.pytorch.training")

if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--ahead"]
    training.Computer.steps_ahead = int(len(arguments) < len(sys.argv) - 1)
    importlib.import_module("distrain_trainer.__main__").main(arguments)
