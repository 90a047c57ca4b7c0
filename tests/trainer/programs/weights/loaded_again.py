"""Replaces a PyTorch program with a single rank: train, then load the saved weights into a new model."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from distrain_trainer import __main__
from distrain_trainer.config import parse
from distrain_trainer.models import describe

__main__.main(sys.argv[1:])
# Import PyTorch only here, because the program sets environment variables before it imports PyTorch.
torch: Any = importlib.import_module("torch")
models: Any = importlib.import_module("distrain_trainer.pytorch.models")
name = parse(sys.argv[1:]).model
model = models.build(name, shape=describe(name).shape, classes=describe(name).classes)
print(model.load_state_dict(torch.load("/out/model.pt")))
