"""Keep a model's buffers from before a step, so that the step's changes of them can be undone."""

from __future__ import annotations

from typing import Any

import torch


class Statistics:
    """The model's buffers from before a step, for example batch normalization statistics, and copies of their values.

    A step may change a buffer's values, replace the buffer by another tensor, or add a buffer.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before: dict[str, tuple[Any, Any]] = {}

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def keep(self) -> None:
        self._before = {name: (buffer, without_repeats(buffer).clone()) for name, buffer in self._buffers().items()}

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def restore(self) -> None:
        """Undo the step's changes of the buffers."""
        for name in self._buffers().keys() - self._before.keys():
            self._set(name, None)
        for name, (buffer, values) in self._before.items():
            without_repeats(buffer).copy_(values)
            self._set(name, buffer)

    def _buffers(self) -> dict[str, Any]:
        # A tensor may stand under several names.
        return dict(self._model.named_buffers(remove_duplicate=False))

    def _set(self, name: str, buffer: Any) -> None:
        owner, _, key = name.rpartition(".")
        setattr(self._model.get_submodule(owner), key, buffer)


def without_repeats(tensor: Any) -> Any:
    """Return a view of a tensor with each element once. In a tensor made by expand() elements share memory."""
    for dimension in reversed(range(tensor.dim())):
        if tensor.stride(dimension) == 0 and tensor.size(dimension):
            tensor = tensor.select(dimension, 0)
    return tensor
