"""Find the training state among the objects that TensorFlow has in memory. See live_state.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# Maps the variables of Keras' loss scaler to the names that they have in checkpoints.
SCALER = {"current_loss_scale": "scaler.scale", "good_steps": "scaler.scale-steps"}
Alive = Callable[[Any], list[Any]]


def walk(config: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    [model] = alive(tf.keras.Model)
    graphs = [graph for graph in alive(tf.Graph) if graph.get_collection("variables")]
    yield from on_servers(model, graphs) if graphs else in_this_process(model, alive)


def in_this_process(model: Any, alive: Alive) -> Iterator[tuple[str, Any]]:
    # Random generators do not count as state: each step seeds them from the run's seed and the number of samples seen.
    drawing = {id(generator.state) for generator in alive(tf.random.Generator)}
    # These variables count the batches of Keras' fit, evaluate and predict, which the trainer does not call.
    counting = {id(each) for each in (model._train_counter, model._test_counter, model._predict_counter)}
    # In half precision, Keras wraps each weight in an object that casts it. Leave out the inner weight, which would
    # count twice.
    wrapped = {id(each._variable) for each in model.variables if hasattr(each, "_variable")}
    of_model = {id(variable) for variable in model.variables}
    for variable in alive(tf.Variable):
        if id(variable) not in drawing | counting | wrapped:
            name = variable.name.removesuffix(":0")
            kind = "model" if id(variable) in of_model else "optimizer"
            yield SCALER.get(name, f"{kind}.{name}"), variable.numpy()


def on_servers(model: Any, graphs: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the type and shape of each variable on the servers that belongs to the model or to the optimizer.

    The servers also have variables for the barrier and for requests to stop. Skip these.
    """
    [graph] = graphs
    for variable in model.variables:
        yield f"model.{variable.name.removesuffix(':0')}", description(variable)
    for variable in graph.get_collection("variables"):
        weight, _, slot = variable.name.removesuffix(":0").partition("/")
        if weight == "pause" or weight.startswith("asked-"):
            continue
        if not weight.startswith("weight-"):
            yield f"optimizer.{weight}", description(variable)
        elif slot:
            name = model.trainable_variables[int(weight.removeprefix("weight-"))].name.removesuffix(":0")
            yield f"optimizer.{name}/{slot}", description(variable)


def description(variable: Any) -> dict[str, Any]:
    return {"dtype": variable.dtype.base_dtype.name, "shape": variable.shape.as_list()}
