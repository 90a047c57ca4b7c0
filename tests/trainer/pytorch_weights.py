"""Run as a rank of a PyTorch program: trains without dropout, and leaves this rank's weights in /out, by its rank."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import torch

from distrain_trainer import __main__, pytorch_models
from distrain_trainer.config import parse
from distrain_trainer.data import load
from distrain_trainer.errors import rank_from_environment

models: list[Any] = []
build = pytorch_models.build


def without_dropout(name: str, **of: Any) -> Any:
    models.append(build(name, **of))
    for layer in models[0].modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    save("start")
    return models[0]


def save(when: str) -> None:
    weights = {name: value.detach().numpy() for name, value in models[0].state_dict().items()}
    np.savez(f"/out/{when}-{rank_from_environment()}.npz", **weights)


setattr(pytorch_models, "build", without_dropout)  # noqa: B010
config = parse(sys.argv[1:])
importlib.import_module(__main__.program_of(config)).main(config, load(config))
save("end")
