"""What a PyTorch model, its optimizer and its scaler of losses keep from step to step."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import torch

from distrain_trainer.checkpoint import arrays
from distrain_trainer.checkpoint.manifest import Shapes


class TorchState:
    """The state dictionaries of a model, of its optimizer and of its scaler."""

    file = "state.pt"

    def __init__(self, model: Any, optimizer: Any, scaler: Any) -> None:
        self._parts = {"model": model, "optimizer": optimizer, "scaler": scaler}

    def shapes(self) -> Shapes:
        # An optimizer has no state before its first step.
        return arrays.shapes(self._parts["model"].state_dict())

    def copy(self) -> Callable[[], bytes]:
        copied = {name: to_host(part.state_dict()) for name, part in self._parts.items()}

        def encode() -> bytes:
            content = io.BytesIO()
            torch.save(copied, content)
            return content.getvalue()

        return encode

    def load(self, content: bytes) -> None:
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(loaded[name])


def to_host(value: Any) -> Any:
    """Return a copy of a state dictionary, with every tensor in host memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: to_host(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_host(each) for each in value]
    return value
