"""Save an MXNet program's state in checkpoints, and load it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mxnet as mx
import numpy as np

from distrain_trainer.checkpoint.arrays import Arrays, Cut, Cuts, Field, Fields, elements, subset
from distrain_trainer.mxnet import private
from distrain_trainer.mxnet.ema import Ema
from distrain_trainer.mxnet.server_optimizer import STATES, Keys


class GluonState:
    """A model's parameters, the optimizer's state and moving average of each parameter, and the loss scaler of fp16."""

    def __init__(self, model: Any, trainer: Any, ema: Ema | None = None) -> None:
        self._parameters = named(model)
        self._trainer, self._ema = trainer, ema
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._keys = {names[id(parameter)]: key for key, parameter in trainer.optimizer.param_dict.items()}
        self._scaler = private.loss_scaler_of(trainer)

    def fields(self) -> Fields:
        fields = {name: field_of(name, array) for name, array in self._arrays().items()}
        return fields | {name: field_of(name, np.array(number)) for name, number in self._numbers().items()}

    def later_fields(self) -> Fields:
        states = STATES[type(self._trainer.optimizer).__name__.lower()]
        return {
            f"optimizer.{name}.{number}": field_of(name, parameter)
            for name, parameter in self._parameters.items()
            for number in range(states if parameter.grad_req != "null" else 0)
        }

    def trained_bytes(self) -> int:
        return bytes_of(each for each in self._parameters.values() if each.grad_req != "null")

    def wait(self) -> None:
        mx.nd.waitall()

    def unshared(self) -> set[str]:
        return {f"model.{name}" for name, parameter in self._parameters.items() if parameter.grad_req == "null"}

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        arrays, numbers = self._arrays(), self._numbers()
        for name, place in into.items():
            if name in numbers:
                place[...] = numbers[name]
            else:
                copy_to_host(arrays[name], place, cuts.get(name))

    def load(self, arrays: Arrays) -> None:
        for name, parameter in self._parameters.items():
            parameter.set_data(to_mxnet(arrays[f"model.{name}"]))
        updater, optimizer = private.updater_of(self._trainer), self._trainer.optimizer
        for name, key in self._keys.items():
            parameter = self._parameters[name]
            # If every step so far was left out, the optimizer has no state yet.
            if parameter.grad_req != "null" and f"optimizer.{name}.0" in arrays:
                updater.states[key] = optimizer.create_state_multi_precision(key, parameter.data())
                updater.states_synced[key] = True
        for name, array in self._optimizer_arrays().items():
            array[:] = to_mxnet(arrays[name])
        if self._ema is not None and (averages := subset(arrays, "ema.")):
            self._ema.load({name: to_mxnet(average) for name, average in averages.items()})
        # Restore the number of updates: Adam and the learning rate schedule depend on it.
        optimizer.begin_num_update = optimizer.num_update = int(arrays["updates"])
        if self._scaler:  # Only the checkpoints of fp16 runs contain a loss scaler.
            private.set_scales(self._scaler, {name: each.item() for name, each in subset(arrays, "scaler.").items()})

    def former(self, content: bytes) -> Arrays:
        names = dict(enumerate(self._parameters))
        keys = {key: name for name, key in self._keys.items()}
        return read_former(content, names, keys)

    def _arrays(self) -> dict[str, Any]:
        model = {f"model.{name}": parameter.data() for name, parameter in self._parameters.items()}
        averages = self._ema.averages if self._ema is not None else {}
        return model | self._optimizer_arrays() | {f"ema.{name}": average for name, average in averages.items()}

    def _optimizer_arrays(self) -> dict[str, Any]:
        states = private.updater_of(self._trainer).states
        return {
            f"optimizer.{name}.{number}": array
            for name, key in self._keys.items()
            for number, array in enumerate(parts_of(states.get(key)))
        }

    def _numbers(self) -> dict[str, float]:
        scales = private.scales_of(self._scaler) if self._scaler else {}
        updates = {"updates": self._trainer.optimizer.num_update}
        return updates | {f"scaler.{name}": number for name, number in scales.items()}


def named(model: Any) -> dict[str, Any]:
    """Return the parameters, keyed by their paths in the model.

    If a parameter does not belong to a block of the model, it keeps its own name.
    """
    places = {id(parameter): place for place, parameter in private.parameters_by_path(model).items()}
    return {places.get(id(each), name): each for name, each in model.collect_params().items()}


def bytes_of(parameters: Iterable[Any]) -> int:
    return sum(int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in parameters)


def field_of(name: str, array: Any) -> Field:
    return Field.of(name, np.dtype(array.dtype).name, array.shape)


def copy_to_host(array: Any, place: Any, cut: Cut | None = None) -> None:
    """Copy an array, or a piece of it, into host memory. Unlike asnumpy, do not allocate new memory.

    If the array is on the host, NumPy copies it, because MXNet takes 1.05 to 1.7 times as long.
    """
    if array.context.device_type == "cpu":
        flat = private.view(array).view(place.dtype)
        place[...] = elements(flat, cut, place.size).reshape(place.shape)
    else:
        private.copy_from_gpu(elements(array, cut, place.size), place)


def to_mxnet(array: Any) -> Any:
    return mx.nd.array(array, dtype=array.dtype)


def parts_of(state: Any) -> list[Any]:
    """Flatten the optimizer's state of one weight, which is None, an array, or nested sequences of arrays."""
    if state is None:
        return []
    return [part for each in state for part in parts_of(each)] if isinstance(state, (list, tuple)) else [state]


def read_former(content: bytes, weights: Mapping[int, str], keys: Mapping[int, str]) -> Arrays:
    """Return the arrays of an MXNet file of checkpoint format 1, under their current names.

    In the file, parameters have numbers instead of names. `weights` maps these numbers to names, `keys` maps the
    optimizer's keys to names.
    """
    found = {}
    for path, array in mx.nd.load_frombuffer(content).items():
        kind, *numbers = path.split("-")
        name = path
        if kind == "model" and int(numbers[0]) in weights:
            name = f"model.{weights[int(numbers[0])]}"
        elif kind == "optimizer" and int(numbers[0]) in keys:
            name = f"optimizer.{keys[int(numbers[0])]}.{numbers[1]}"
        elif kind == "model":
            name = path.replace("-", ".")
        found[name] = array.asnumpy()
    if "updates" in found:  # In format 1, this number was stored in an array.
        found["updates"] = found["updates"].reshape(())
    return found


class ServersState:
    """The state on the servers of an MXJob: the weights, and the optimizer's state of each weight.

    Parameters that are not trained, for example batch normalization statistics, are saved from the worker's model.
    """

    def __init__(self, model: Any, store: Any, keys: Keys) -> None:
        every = named(model)
        self._trained = {name: each for name, each in every.items() if each.grad_req != "null"}
        self._own = {name: each for name, each in every.items() if each.grad_req == "null"}
        self._store, self.keys = store, keys
        self.trained = list(self._trained.values())
        self.loaded: Arrays = {}

    def fields(self) -> Fields:
        fields = {f"model.{name}": field_of(name, parameter) for name, parameter in self._own.items()}
        for name, parameter in self._trained.items():
            fields[f"model.{name}"] = field_of(name, parameter)
            for number in range(self.keys.states):
                fields[f"optimizer.{name}.{number}"] = field_of(name, parameter)
        return fields

    def later_fields(self) -> Fields:
        return {}

    def trained_bytes(self) -> int:
        return bytes_of(self.trained)

    def wait(self) -> None:
        mx.nd.waitall()

    def unshared(self) -> tuple[str, ...]:
        return ()  # Worker 0 saves all arrays, so no other worker needs a copy.

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        """Copy the worker's own parameters, and pull the other arrays from the servers one by one."""
        for name, parameter in self._own.items():
            copy_to_host(parameter.list_data()[0], into[f"model.{name}"])
        for weight, (name, parameter) in enumerate(self._trained.items()):
            pulled = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            for path, key in self._keys_of(weight, name).items():
                self._store.pull(key, out=pulled)
                copy_to_host(pulled, into[path])

    def _keys_of(self, weight: int, name: str) -> dict[str, int]:
        kept = {f"optimizer.{name}.{number}": key for number, key in enumerate(self.keys.of_state(weight))}
        return {f"model.{name}": weight, **kept}

    def load(self, arrays: Arrays) -> None:
        """Load a checkpoint's arrays. Called by worker 0 before put_weights and put_optimizer."""
        self.loaded = arrays
        for name, parameter in {**self._own, **self._trained}.items():
            parameter.set_data(to_mxnet(arrays[f"model.{name}"]))

    def former(self, content: bytes) -> Arrays:
        names = dict(enumerate(self._trained))
        own = {f"own-{number}": f"model.{name}" for number, name in enumerate(self._own)}
        return {own.get(name, name): array for name, array in read_former(content, names, names).items()}

    def put_weights(self, *, is_mine: bool) -> None:
        """Push the weights of one worker, and pull them on all workers.

        Called by all workers before the servers receive the training optimizer. Until then, the servers add up all
        arrays that are pushed.
        """
        for weight, parameter in enumerate(self.trained):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            self._store.init(weight, nothing)
            self._store.push(weight, parameter.list_data()[0].copyto(mx.cpu()) if is_mine else nothing)
        mx.nd.waitall()
        private.barrier(self._store)  # Distributed
        for weight, parameter in enumerate(self.trained):
            self._store.pull(weight, out=parameter.list_data())

    def put_optimizer(self) -> None:
        """Push the optimizer state that was loaded from a checkpoint, if there is one.

        Called by all workers after the servers have received the training optimizer.
        """
        for weight, (name, parameter) in enumerate(self._trained.items()):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            for path, key in list(self._keys_of(weight, name).items())[1:]:
                self._store.init(key, nothing)
                self._store.push(key, to_mxnet(self.loaded[path]) if path in self.loaded else nothing)
        mx.nd.waitall()
        private.barrier(self._store)  # Distributed
        self.loaded = {}
