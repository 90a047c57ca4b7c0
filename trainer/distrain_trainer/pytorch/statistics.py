"""Copy the buffers of a model before each step, so that the changes of a step can be undone."""

from __future__ import annotations

from typing import Any

import torch

# The element types that select_all supports. Buffers of batch normalization have one of these types.
SELECTABLE = (torch.float32, torch.float64, torch.int64)
# A module, and the name of one of its buffers.
Place = tuple[Any, str]


class Statistics:
    """Copies of a model's buffers, for example batch normalization statistics, as they were before a step.

    A step may change the values of a buffer, replace the buffer by another tensor, or add a buffer to a module.
    """

    def __init__(self, model: Any) -> None:
        self._modules = list(model.modules())
        self._before: dict[Place, Any] = {}
        self._copies: list[Any] = []

    def keep(self) -> None:
        buffers = self._buffers()
        if buffers or self._before:
            self._keep(buffers)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def _keep(self, buffers: dict[Place, Any]) -> None:
        values = [without_repeats(buffer) for buffer in buffers.values()]
        if are_same(buffers, self._before) and shapes(values) == shapes(self._copies):
            copy_all(values, self._copies)
        else:
            self._copies = [value.clone() for value in values]
        self._before = buffers

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def restore(self) -> None:
        """Undo all changes that the step has made to the buffers."""
        for module, name in self._buffers().keys() - self._before.keys():
            setattr(module, name, None)
        for ((module, name), buffer), values in zip(self._before.items(), self._copies, strict=True):
            without_repeats(buffer).copy_(values)
            setattr(module, name, buffer)

    def restore_if(self, is_bad: Any) -> None:
        """Undo the changes of the step if the given boolean tensor is true.

        Usually this process need not wait for the GPU to compute the boolean tensor.
        """
        buffers = self._buffers()
        if buffers or self._before:
            self._restore_if(is_bad, buffers)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def _restore_if(self, is_bad: Any, buffers: dict[Place, Any]) -> None:
        values = [without_repeats(buffer) for buffer in buffers.values()]
        is_kept = are_same(buffers, self._before) and shapes(values) == shapes(self._copies)
        if is_kept and all(value.dtype in SELECTABLE for value in values):
            select_all(is_bad, self._copies, values)
        elif is_bad:
            self.restore()

    def _buffers(self) -> dict[Place, Any]:
        # Do not use model.named_buffers(): it takes longer than the copies of the buffers on a GPU.
        return {
            (module, name): buffer
            for module in self._modules
            for name, buffer in module._buffers.items()
            if buffer is not None
        }


def are_same(buffers: dict[Place, Any], before: dict[Place, Any]) -> bool:
    return buffers.keys() == before.keys() and all(buffer is before[place] for place, buffer in buffers.items())


def shapes(tensors: list[Any]) -> list[Any]:
    return [tensor.shape for tensor in tensors]


def select_all(is_true: Any, sources: list[Any], targets: list[Any]) -> None:
    """Copy `sources` to `targets` if the given boolean tensor is true.

    All tensors of one type are copied by a few GPU kernels.
    """
    for kind in {target.dtype for target in targets}:
        pairs = [pair for pair in zip(sources, targets, strict=True) if pair[1].dtype == kind]
        before, now = (torch.cat([tensor.reshape(-1) for tensor in each]) for each in zip(*pairs, strict=True))
        of_kind = [target for _, target in pairs]
        chosen = torch.where(is_true, before, now).split([target.numel() for target in of_kind])
        copy_all([part.view(target.shape) for part, target in zip(chosen, of_kind, strict=True)], of_kind)


def copy_all(sources: list[Any], targets: list[Any]) -> None:
    """Copy `sources` to `targets`. On a GPU, one kernel copies all tensors of one type."""
    by_type: dict[Any, tuple[list[Any], list[Any]]] = {}
    for source, target in zip(sources, targets, strict=True):
        of_type = by_type.setdefault((source.dtype, source.device), ([], []))
        of_type[0].append(source)
        of_type[1].append(target)
    for source_tensors, target_tensors in by_type.values():
        torch._foreach_copy_(target_tensors, source_tensors)


def without_repeats(tensor: Any) -> Any:
    """Return a view of a tensor in which no two elements share the same memory.

    In a tensor made by expand(), several elements share the same memory.
    """
    for dimension in reversed(range(tensor.dim())):
        if tensor.stride(dimension) == 0 and tensor.size(dimension):
            tensor = tensor.select(dimension, 0)
    return tensor
