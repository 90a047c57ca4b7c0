"""Find the training state among the objects that MXNet has in memory. See live_state.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as np

from distrain_trainer.mxnet.optimizers import make_optimizer
from distrain_trainer.mxnet.training import Loss

Alive = Callable[[Any], list[Any]]


def walk(config: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    model = model_of_this_process(alive)
    places = {id(parameter): place for place, parameter in model._collect_params_with_prefix().items()}
    parameters = {places[id(each)]: each for each in model.collect_params().values()}
    for name, parameter in parameters.items():
        yield f"model.{name}", parameter.list_data()[0].asnumpy()
    trainers = alive(mx.gluon.Trainer)
    for trainer in trainers:
        yield from of_trainer(trainer, places)
    if not trainers:
        yield from on_servers(config, parameters)


def model_of_this_process(alive: Alive) -> Any:
    """Return the model: the block with parameters that is part of no other block except the trainer's Loss."""
    blocks = [block for block in alive(mx.gluon.Block) if not isinstance(block, Loss)]
    parts = {id(part) for block in blocks for part in block._children.values()}
    [model] = [block for block in blocks if id(block) not in parts and [*block.collect_params()]]
    return model


def of_trainer(trainer: Any, places: dict[int, str]) -> Iterator[tuple[str, Any]]:
    [updater] = trainer._updaters
    for key, state in updater.states.items():
        yield from slots(places[id(trainer._params[key])], state)
    [updates] = {*trainer._optimizer._index_update_count.values()} or {0}
    yield "updates", np.int64(updates)
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    for name in ("loss_scale", "next_loss_scale", "unskipped") if scaler else ():
        yield f"scaler.{name}", getattr(scaler, f"_{name}")


def on_servers(config: Any, parameters: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the type and shape of the optimizer's state for each trained weight. The values are only on the servers."""
    for name, parameter in parameters.items():
        if parameter.grad_req != "null":
            state = make_optimizer(config).create_state(0, parameter.list_data()[0])
            for slot, array in slots(name, state):
                yield slot, {"dtype": array.dtype.name, "shape": list(array.shape)}


def slots(name: str, state: Any) -> Iterator[tuple[str, Any]]:
    arrays = state if isinstance(state, (list, tuple)) else [] if state is None else [state]
    yield from ((f"optimizer.{name}.{number}", array.asnumpy()) for number, array in enumerate(arrays))
