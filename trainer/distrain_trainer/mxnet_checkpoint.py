"""What a Gluon model and its trainer keep from step to step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mxnet as mx

from distrain_trainer.checkpoint import arrays
from distrain_trainer.checkpoint.manifest import Shapes
from distrain_trainer.mxnet_server_optimizer import Keys


class GluonState:
    """The parameters of a model, and what its trainer's optimizer keeps of each."""

    file = "state.params"

    def __init__(self, model: Any, trainer: Any) -> None:
        self._parameters = list(model.collect_params().values())
        self._trainer = trainer

    def shapes(self) -> Shapes:
        # An optimizer has no state before its first step.
        return arrays.shapes({f"model-{number}": each for number, each in enumerate(self._parameters)})

    def copy(self) -> Callable[[], bytes]:
        copied = {f"model-{number}": each.data().copyto(mx.cpu()) for number, each in enumerate(self._parameters)}
        for name, array in self._optimizer_arrays().items():
            copied[name] = array.copyto(mx.cpu())
        copied["updates"] = mx.nd.array([self._trainer._optimizer.num_update], dtype="int64")
        mx.nd.waitall()
        return lambda: encode(copied)

    def load(self, content: bytes) -> None:
        loaded = decode(content)
        for number, parameter in enumerate(self._parameters):
            parameter.set_data(loaded[f"model-{number}"])
        updater = self._updater()
        for key, parameter in enumerate(self._trainer._params):
            if parameter.grad_req != "null":
                updater.states[key] = self._trainer._optimizer.create_state_multi_precision(key, parameter.data())
                updater.states_synced[key] = True
        for name, array in self._optimizer_arrays().items():
            array[:] = loaded[name]
        start_updates_at(self._trainer._optimizer, int(loaded["updates"].asscalar()))

    def _updater(self) -> Any:
        [updater] = self._trainer._updaters
        return updater

    def _optimizer_arrays(self) -> dict[str, Any]:
        return {
            f"optimizer-{key}-{number}": array
            for key, state in self._updater().states.items()
            for number, array in enumerate(parts_of(state))
        }


def parts_of(state: Any) -> list[Any]:
    """Return the arrays of an optimizer's state of a weight: none, one, or several one in another."""
    if state is None:
        return []
    return [part for each in state for part in parts_of(each)] if isinstance(state, (list, tuple)) else [state]


def start_updates_at(optimizer: Any, updates: int) -> None:
    """Have an optimizer count its updates from a number on: Adam's steps and a schedule's rate depend on it."""
    optimizer.begin_num_update = optimizer.num_update = updates
    optimizer._index_update_count.clear()


def encode(named: Mapping[str, Any]) -> bytes:
    # MXNet writes to files alone.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        mx.nd.save(str(path), dict(named))
        return path.read_bytes()


def decode(content: bytes) -> dict[str, Any]:
    return dict(mx.nd.load_frombuffer(content))


class ServersState:
    """What the servers of an MXJob hold: the weights, and what the optimizer keeps of each.

    The parameters that are not trained, such as the means of a batch normalization, are the worker's own.
    """

    file = "state.params"

    def __init__(self, model: Any, store: Any, keys: Keys) -> None:
        every = list(model.collect_params().values())
        self.trained = [each for each in every if each.grad_req != "null"]
        self._own = [each for each in every if each.grad_req == "null"]
        self._store, self.keys = store, keys
        self.loaded: dict[str, Any] = {}

    def shapes(self) -> Shapes:
        return arrays.shapes({f"model-{number}": each for number, each in enumerate(self.trained)})

    def copy(self) -> Callable[[], bytes]:
        copied = {f"own-{number}": each.list_data()[0].copyto(mx.cpu()) for number, each in enumerate(self._own)}
        for weight, parameter in enumerate(self.trained):
            for number, key in enumerate((weight, *self.keys.of_state(weight))):
                copied[_name(weight, number)] = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
                self._store.pull(key, out=copied[_name(weight, number)])
        mx.nd.waitall()
        return lambda: encode(copied)

    def load(self, content: bytes) -> None:
        """By worker 0, before the weights and the optimizer's state are put on the servers."""
        self.loaded = decode(content)
        for number, parameter in enumerate(self._own):
            parameter.set_data(self.loaded[f"own-{number}"])
        for weight, parameter in enumerate(self.trained):
            parameter.set_data(self.loaded[_name(weight, 0)])

    def put_weights(self, *, is_mine: bool) -> None:
        """By all workers, while servers add up what they get: put one worker's weights there, and take them back."""
        for weight, parameter in enumerate(self.trained):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            self._store.init(weight, nothing)
            self._store.push(weight, parameter.list_data()[0].copyto(mx.cpu()) if is_mine else nothing)
        mx.nd.waitall()
        self._store._barrier()  # Distributed
        for weight, parameter in enumerate(self.trained):
            self._store.pull(weight, out=parameter.list_data())

    def put_optimizer(self) -> None:
        """By all workers, once the servers have the optimizer: put its state there, if one was loaded."""
        for weight, parameter in enumerate(self.trained):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            for number, key in enumerate(self.keys.of_state(weight)):
                self._store.init(key, nothing)
                self._store.push(key, self.loaded.get(_name(weight, number + 1), nothing))
        mx.nd.waitall()
        self._store._barrier()  # Distributed


def _name(weight: int, number: int) -> str:
    return f"optimizer-{weight}-{number - 1}" if number else f"model-{weight}"
