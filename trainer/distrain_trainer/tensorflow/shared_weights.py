"""Hold a model's weights on parameter servers.

A worker pulls all weights before each step, and pushes the gradients after it. In each step, a worker pulls and pushes
4 bytes for every parameter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from distrain_trainer.checkpoint.arrays import Arrays, Cuts, Fields
from distrain_trainer.config import Config
from distrain_trainer.tensorflow.optimizers import decays
from distrain_trainer.tensorflow.placement import spread
from distrain_trainer.tensorflow.processes import Member, device_of
from distrain_trainer.tensorflow.state import bytes_of, field_of, former_names, named, read_former, to_variable

v1 = tf.compat.v1


class SharedWeights:
    """References of this process to a model's variables on the parameter servers.

    Every process creates the same variables in the same order, so all processes use the same names. The chief saves the
    variables in checkpoints.
    """

    def __init__(self, config: Config, model: Any, member: Member) -> None:
        self._member = member
        self._trained = list(model.trainable_variables)
        # For example, batch normalization statistics.
        self._counted = list(model.non_trainable_variables)
        with member.graph.as_default():
            self._make(config)

    def _make(self, config: Config) -> None:
        mine = self._trained + self._counted
        servers = spread([variable.shape.num_elements() for variable in mine], self._member.cluster.servers)
        self._shared = [
            _variable(f"weight-{number}", variable, server)
            for number, (variable, server) in enumerate(zip(mine, servers, strict=True))
        ]
        self._read = [variable.read_value() for variable in self._shared]
        self._given = [v1.placeholder(variable.dtype.base_dtype, variable.shape) for variable in mine]
        self._write = [old.assign(new, read_value=False) for old, new in zip(self._shared, self._given, strict=True)]
        self._rate = v1.placeholder(tf.float32, [])
        pairs = list(zip(self._given, self._shared, strict=True))
        trained, counted = pairs[: len(self._trained)], pairs[len(self._trained) :]
        optimizer = _optimizer(config, self._rate)
        # These optimizers decouple the weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101). For SGD, the worker
        # adds the weight decay to the gradients.
        decay = config.weight_decay if config.optimizer == "adam" else 0.0
        shrinks = [
            shared.assign_sub(self._rate * decay * shared, use_locking=True, read_value=False)
            for _, shared in trained
            if decay and decays(shared)
        ]
        # Each variable is updated by a single op on its server, so the updates of two workers to a variable never mix.
        with tf.control_dependencies(shrinks):
            self._update = optimizer.apply_gradients(trained)
        self._count = [_count(shared, given) for given, shared in counted]
        names = list(named("model", mine))
        self._kept = dict(zip(names, self._shared, strict=True))
        self._kept |= {slot_name(each.name, names): each for each in optimizer.variables()}
        numbered = {f"model-{number}": each for number, each in enumerate(self._shared)}
        numbered |= {f"optimizer-{number}": each for number, each in enumerate(optimizer.variables())}
        self._former = former_names(numbered, self._kept)
        self._values = {name: each.read_value() for name, each in self._kept.items()}
        self._loads = {name: _load(each) for name, each in self._kept.items()}
        self._start = v1.global_variables_initializer()

    def put(self) -> None:
        """Called by the chief: write its model's weights to the servers, and initialize the optimizer's variables."""
        self._member.run(self._start)
        self._member.run(self._write, self._feed([variable.numpy() for variable in self._trained + self._counted]))

    def pull(self) -> None:
        """Copy the servers' weights into the model.

        In the same call, set `signs`: the number of pauses that the chief has begun so far, and each server's request
        to stop.
        """
        self._pulled, self.signs = self._member.run([self._read, self._member.signs])
        for variable, value in zip(self._trained + self._counted, self._pulled, strict=True):
            variable.assign(value)

    def push(self, gradients: Sequence[Any], *, rate: float) -> None:
        """Let the servers apply the gradients.

        Also send this step's changes of variables that are not trained.
        """
        number = len(self._trained)
        ops = [self._update]
        feed = dict(zip(self._given[:number], (gradient.numpy() for gradient in gradients), strict=True))
        counted = zip(self._counted, self._pulled[number:], self._given[number:], self._count, strict=True)
        for variable, old, given, op in counted:
            new = variable.numpy()
            if not np.array_equal(new, old):
                feed[given] = new - old if is_number(variable) else new
                ops.append(op)
        self._member.run(ops, {**feed, self._rate: rate})

    def fields(self) -> Fields:
        return {name: field_of(name, variable) for name, variable in self._kept.items()}

    def later_fields(self) -> Fields:
        return {}

    def trained_bytes(self) -> int:
        return bytes_of(self._trained)

    def wait(self) -> None:
        """Do nothing: the chief makes no steps."""

    def unshared(self) -> tuple[str, ...]:
        return ()  # Only the servers have these arrays, so no rank has a different value.

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        """Called by the chief while no worker pushes: fetch the weights and the optimizer's variables, one by one."""
        for name, place in into.items():
            place[...] = np.asarray(self._member.run(self._values[name])).view(place.dtype)

    def load(self, arrays: Arrays) -> None:
        """Called by the chief: write the arrays of a checkpoint to the servers, one by one."""
        for name, (given, write) in self._loads.items():
            self._member.run(write, {given: to_variable(arrays[name], given.dtype)})

    def former(self, content: bytes) -> Arrays:
        return read_former(content, self._former)

    def _feed(self, values: list[Any]) -> dict[Any, Any]:
        return dict(zip(self._given, values, strict=True))


def slot_name(name: str, weights: Sequence[str]) -> str:
    """Return an optimizer variable's name in checkpoints, given its name in the graph (`weight-0/Momentum:0`)."""
    found = re.fullmatch(r"weight-(\d+)/(.+):0", name)
    if found is None:
        return f"optimizer.{name.removesuffix(':0')}"
    return f"optimizer.{weights[int(found[1])].removeprefix('model.')}/{found[2]}"


def _load(variable: Any) -> tuple[Any, Any]:
    """Return a placeholder for the new value of a variable, and the op that assigns this value."""
    given = v1.placeholder(variable.dtype.base_dtype, variable.shape)
    return given, variable.assign(given, read_value=False)


def _variable(name: str, like: Any, server: int) -> Any:
    with tf.device(f"{device_of('ps', server)}/device:CPU:0"):
        return v1.get_variable(name, like.shape, like.dtype.base_dtype, v1.zeros_initializer(), use_resource=True)


def is_number(variable: Any) -> bool:
    return bool(variable.dtype.is_integer or variable.dtype.is_floating or variable.dtype.is_complex)


def _count(shared: Any, given: Any) -> Any:
    """Return an op that applies a worker's change to a variable.

    The op adds the change to a number, and overwrites a boolean.
    """
    return (shared.assign_add if is_number(shared) else shared.assign)(given, read_value=False)


def _optimizer(config: Config, rate: Any) -> Any:
    """Return the optimizer that runs on the servers. Its constants are Keras' default values."""
    if config.optimizer == "adam":
        return v1.train.AdamOptimizer(rate, epsilon=1e-7, use_locking=True)
    return v1.train.MomentumOptimizer(rate, momentum=0.9, use_locking=True)
