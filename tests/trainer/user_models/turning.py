"""PyTorch models with unusual state, which changes in each training step. Tests put this folder on PYTHONPATH."""

from __future__ import annotations

import hashlib
from math import prod
from typing import Any

import torch
from torch import nn

from distrain_trainer.checkpoint.arrays import TYPES


class Turning(nn.Module):
    """A model with a buffer of complex numbers, and with extra state (get_extra_state)."""

    def __init__(self, calls: Any) -> None:
        super().__init__()
        self.register_buffer("angle", torch.ones(1, dtype=torch.complex64))
        self.calls = calls

    def forward(self, images: Any) -> Any:
        if self.training:
            self.angle *= 1j
            self.calls += 1
        return images

    def get_extra_state(self) -> Any:
        return self.calls

    def set_extra_state(self, calls: Any) -> None:
        self.calls = calls


def net(shape: tuple[int, ...], classes: int, first: Any = None) -> Any:
    first = first or Turning(torch.zeros(1))
    return nn.Sequential(first, nn.Flatten(), nn.Linear(prod(shape), classes))


def counted(shape: tuple[int, ...], classes: int) -> Any:
    return net(shape, classes, Turning(0))


class Phase(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phase = nn.Parameter(torch.ones(1, dtype=torch.complex64))

    def forward(self, images: Any) -> Any:
        return images * self.phase.real


def phased(shape: tuple[int, ...], classes: int) -> Any:
    return net(shape, classes, Phase())


class Expanded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(1).expand(3))

    def forward(self, images: Any) -> Any:
        return images


def expanded(shape: tuple[int, ...], classes: int) -> Any:
    return net(shape, classes, Expanded())


class Replaced(nn.Module):
    """A model that replaces its buffers by other tensors in each training step.

    One of the buffers is a view made by expand().
    """

    steps: Any
    seen: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("seen", torch.zeros(0), persistent=False)
        self.register_buffer("last", None, persistent=False)
        self.register_buffer("scale", torch.ones(1).expand(3), persistent=False)

    def forward(self, images: Any) -> Any:
        if self.training:
            self.steps = self.steps + 1
            self.seen = torch.cat([self.seen, self.steps])
            self.last = self.steps
            print("seen", self.seen.tolist(), flush=True)
        return images


def replaced(shape: tuple[int, ...], classes: int) -> Any:
    return net(shape, classes, Replaced())


class Typed(nn.Module):
    """A model that has a buffer of every type that a checkpoint can contain.

    The buffers have random values, which differ between the ranks. In the first training step, the model prints a
    digest of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_told = False
        for name in TYPES:
            self.register_buffer(f"of_{name}", torch.randint(0, 2, (9,)).to(getattr(torch, name)))
        self.register_buffer("scalar", torch.randint(0, 99, ()).to(torch.int16))
        self.register_buffer("unsaved", torch.rand(3), persistent=False)
        self.register_buffer("empty", torch.zeros(0, 4, dtype=torch.bfloat16))
        self.register_buffer("transposed", torch.rand(2, 3).t())
        self.register_buffer("conjugated", torch.view_as_complex(torch.rand(3, 2)).conj())
        self.register_buffer("negated", torch.view_as_complex(torch.rand(3, 2)).conj().imag)

    def forward(self, images: Any) -> Any:
        if self.training and not self.is_told:
            self.is_told = True
            values = [buffer.tolist() for buffer in self.buffers()]
            print("buffers", hashlib.sha256(repr(values).encode()).hexdigest(), flush=True)
        return images


def typed(shape: tuple[int, ...], classes: int) -> Any:
    return net(shape, classes, Typed())


def every(shape: tuple[int, ...], classes: int) -> Any:
    """Return a model that combines the states of Turning, Typed and Replaced."""
    uncommon = (Turning(torch.zeros(1)), Typed(), Replaced())
    return nn.Sequential(*uncommon, nn.Flatten(), nn.Linear(prod(shape), classes))
