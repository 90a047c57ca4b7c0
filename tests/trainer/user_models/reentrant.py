"""A PyTorch model that calls torch.utils.checkpoint with use_reentrant=True. Tests put this folder on PYTHONPATH."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 8), nn.Linear(8, classes)

    def forward(self, images: Any) -> Any:
        return checkpoint(self.second, self.first(images.flatten(1)), use_reentrant=True)


def net(shape: tuple[int, ...], classes: int) -> Net:
    return Net(prod(shape), classes)
