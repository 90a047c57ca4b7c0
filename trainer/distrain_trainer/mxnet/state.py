"""Save and load the state of an MXNet program that checkpoints hold."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from distrain_trainer.checkpoint.arrays import Arrays, Field, Fields
from distrain_trainer.mxnet.server_optimizer import Keys

# The attributes of the loss scaler (fp16) that change during the training.
SCALES = ("loss_scale", "next_loss_scale", "unskipped")


class GluonState:
    """The parameters of a model, the optimizer's state of each, and the loss scaler of fp16."""

    def __init__(self, model: Any, trainer: Any) -> None:
        self._parameters = named(model)
        self._trainer = trainer
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._keys = {names[id(parameter)]: key for key, parameter in enumerate(trainer._params)}
        self._scaler = getattr(trainer, "_amp_loss_scaler", None)

    def fields(self) -> Fields:
        fields = {name: field_of(name, array) for name, array in self._arrays().items()}
        return fields | {name: field_of(name, np.array(number)) for name, number in self._numbers().items()}

    def wait(self) -> None:
        mx.nd.waitall()

    def copy(self, into: Arrays) -> None:
        arrays, numbers = self._arrays(), self._numbers()
        for name, place in into.items():
            if name in numbers:
                place[...] = numbers[name]
            else:
                copy_to_host(arrays[name], place)

    def load(self, arrays: Arrays) -> None:
        for name, parameter in self._parameters.items():
            parameter.set_data(to_mxnet(arrays[f"model.{name}"]))
        updater = self._updater()
        for name, key in self._keys.items():
            parameter = self._parameters[name]
            # A run that has left out every step so far has no optimizer state yet.
            if parameter.grad_req != "null" and f"optimizer.{name}.0" in arrays:
                updater.states[key] = self._trainer.optimizer.create_state_multi_precision(key, parameter.data())
                updater.states_synced[key] = True
        for name, array in self._optimizer_arrays().items():
            array[:] = to_mxnet(arrays[name])
        start_updates_at(self._trainer.optimizer, int(arrays["updates"]))
        for name in SCALES if self._scaler else ():
            if f"scaler.{name}" in arrays:  # Only checkpoints of fp16 runs have a loss scaler.
                setattr(self._scaler, f"_{name}", arrays[f"scaler.{name}"].item())

    def former(self, content: bytes) -> Arrays:
        names = dict(enumerate(self._parameters))
        keys = {key: name for name, key in self._keys.items()}
        return read_former(content, names, keys)

    def _updater(self) -> Any:
        [updater] = self._trainer._updaters
        return updater

    def _arrays(self) -> dict[str, Any]:
        model = {f"model.{name}": parameter.data() for name, parameter in self._parameters.items()}
        return model | self._optimizer_arrays()

    def _optimizer_arrays(self) -> dict[str, Any]:
        states = self._updater().states
        return {
            f"optimizer.{name}.{number}": array
            for name, key in self._keys.items()
            for number, array in enumerate(parts_of(states.get(key)))
        }

    def _numbers(self) -> dict[str, float]:
        scales = {f"scaler.{name}": getattr(self._scaler, f"_{name}") for name in SCALES if self._scaler}
        return {"updates": self._trainer.optimizer.num_update, **scales}


def named(model: Any) -> dict[str, Any]:
    """Map paths in the model, as in the files of Gluon's save_parameters, to parameters."""
    places = {id(parameter): place for place, parameter in model._collect_params_with_prefix().items()}
    return {places.get(id(each), name): each for name, each in model.collect_params().items()}


def field_of(name: str, array: Any) -> Field:
    return Field.of(name, np.dtype(array.dtype).name, array.shape)


def copy_to_host(array: Any, place: Any) -> None:
    """Copy an array into host memory, as asnumpy does, but without allocating memory.

    Between host memory NumPy copies, as MXNet takes 1.05 to 1.7 times as long.
    """
    if array.context.device_type == "cpu":
        place[...] = view(array).view(place.dtype).reshape(place.shape)
    else:
        pointer = place.ctypes.data_as(ctypes.c_void_p)
        check_call(_LIB.MXNDArraySyncCopyToCPU(array.handle, pointer, ctypes.c_size_t(place.size)))


def view(array: Any) -> Any:
    """Return the bytes of an array of the host, once it is computed. They share the array's memory."""
    array.wait_to_read()
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    size = array.size * np.dtype(array.dtype).itemsize
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint8)), shape=(size,))


def to_mxnet(array: Any) -> Any:
    return mx.nd.array(array, dtype=array.dtype)


def parts_of(state: Any) -> list[Any]:
    """Flatten an optimizer's state of one weight: None, an array, or nested sequences of arrays."""
    if state is None:
        return []
    return [part for each in state for part in parts_of(each)] if isinstance(state, (list, tuple)) else [state]


def start_updates_at(optimizer: Any, updates: int) -> None:
    """Set an optimizer's count of updates, on which Adam and the learning rate schedule depend."""
    optimizer.begin_num_update = optimizer.num_update = updates
    optimizer._index_update_count.clear()


def read_former(content: bytes, weights: Mapping[int, str], keys: Mapping[int, str]) -> Arrays:
    """Return the arrays of an MXNet file of checkpoint format 1, by their names today.

    The file numbers parameters; `weights` gives their names. `keys` gives the names by the optimizer's keys.
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
    return found


class ServersState:
    """The state on the servers of an MXJob: the weights, and the optimizer's state of each weight.

    Parameters that are not trained, for example batch normalization statistics, are saved from the worker.
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

    def wait(self) -> None:
        mx.nd.waitall()

    def copy(self, into: Arrays) -> None:
        """Copy the worker's own parameters, and pull the other arrays from the servers, one after the other."""
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
        """Load a checkpoint's arrays. Called by worker 0, before put_weights and put_optimizer."""
        self.loaded = arrays
        for name, parameter in {**self._own, **self._trained}.items():
            parameter.set_data(to_mxnet(arrays[f"model.{name}"]))

    def former(self, content: bytes) -> Arrays:
        names = dict(enumerate(self._trained))
        own = {f"own-{number}": f"model.{name}" for number, name in enumerate(self._own)}
        return {own.get(name, name): array for name, array in read_former(content, names, names).items()}

    def put_weights(self, *, is_mine: bool) -> None:
        """Push one worker's weights, and pull them on all workers.

        Called by all workers, while the servers' optimizer only adds up pushes.
        """
        for weight, parameter in enumerate(self.trained):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            self._store.init(weight, nothing)
            self._store.push(weight, parameter.list_data()[0].copyto(mx.cpu()) if is_mine else nothing)
        mx.nd.waitall()
        self._store._barrier()  # Distributed
        for weight, parameter in enumerate(self.trained):
            self._store.pull(weight, out=parameter.list_data())

    def put_optimizer(self) -> None:
        """Push the loaded optimizer state, if any. Called by all workers, once the servers have the optimizer."""
        for weight, (name, parameter) in enumerate(self._trained.items()):
            nothing = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
            for path, key in list(self._keys_of(weight, name).items())[1:]:
                self._store.init(key, nothing)
                self._store.push(key, to_mxnet(self.loaded[path]) if path in self.loaded else nothing)
        mx.nd.waitall()
        self._store._barrier()  # Distributed
        self.loaded = {}
