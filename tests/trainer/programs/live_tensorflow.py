"""Find the state in TensorFlow's live objects; see live_state.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

Alive = Callable[[Any], list[Any]]


def walk(config: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    [model] = alive(tf.keras.Model)
    graphs = [graph for graph in alive(tf.Graph) if graph.get_collection("variables")]
    yield from on_servers(model, graphs) if graphs else in_this_process(model, alive)


def in_this_process(model: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    # Random generators are no state: they are seeded before each step, from the seed and the samples seen.
    drawing = {id(generator.state) for generator in alive(tf.random.Generator)}
    # Keras counts the batches of fit, evaluate and predict, which the trainer does not call.
    counting = {id(each) for each in (model._train_counter, model._test_counter, model._predict_counter)}
    of_model = {id(variable) for variable in model.variables}
    for variable in alive(tf.Variable):
        if id(variable) not in drawing | counting:
            kind = "model" if id(variable) in of_model else "optimizer"
            yield f"{kind}.{variable.name.removesuffix(':0')}", variable.numpy()


def on_servers(model: Any, graphs: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the types and shapes of the servers' variables, except the signs of the barrier and of stop requests."""
    [graph] = graphs
    shared = [*model.trainable_variables, *(each for each in model.non_trainable_variables if each.dtype.is_floating)]
    for variable in graph.get_collection("variables"):
        weight, _, slot = variable.name.removesuffix(":0").partition("/")
        if weight == "pause" or weight.startswith("asked-"):
            continue
        told = {"dtype": variable.dtype.base_dtype.name, "shape": variable.shape.as_list()}
        if not weight.startswith("weight-"):
            yield f"optimizer.{weight}", told
            continue
        name = shared[int(weight.removeprefix("weight-"))].name.removesuffix(":0")
        yield (f"optimizer.{name}/{slot}" if slot else f"model.{name}"), told
