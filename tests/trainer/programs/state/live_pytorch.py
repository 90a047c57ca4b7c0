"""Find the training state among the objects that PyTorch has in memory. See live_state.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

Alive = Callable[[Any], list[Any]]


def walk(config: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    model = model_of_this_process(alive)
    hidden = {
        f"{path}.{name}".strip(".") for path, each in model.named_modules() for name in each._non_persistent_buffers_set
    }
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name not in hidden:
            yield f"model.{name}", tensor.detach().numpy()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for optimizer in alive(torch.optim.Optimizer):
        for parameter, kept in optimizer.state.items():
            for slot, value in kept.items():
                yield f"optimizer.{names[id(parameter)]}.{slot}", value
        for number, group in enumerate(optimizer.param_groups):
            # `fused` is left out, because checkpoints of earlier versions do not contain it.
            kept = {key: value for key, value in group.items() if key not in ("params", "fused")}
            yield from numbers(f"group.{number}", kept)
    for scheduler in alive(torch.optim.lr_scheduler.LRScheduler):
        yield from numbers("scheduler", scheduler.state_dict())
    for scaler in alive(torch.amp.GradScaler):
        yield from numbers("scaler", scaler.state_dict())


def model_of_this_process(alive: Alive) -> Any:
    """Return the model: the module that is not part of another module. DistributedDataParallel does not count."""
    modules = [module for module in alive(torch.nn.Module) if not isinstance(module, DistributedDataParallel)]
    parts = {id(part) for module in modules for part in module.children()}
    [model] = [module for module in modules if id(module) not in parts and any(True for _ in module.parameters())]
    return model


def numbers(prefix: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((f"{prefix}.{key}", value) for key, value in values.items() if value is not None)
