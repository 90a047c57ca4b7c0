"""Save a PyTorch program's state in checkpoints, and load it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from distrain_trainer.checkpoint.arrays import BFLOAT16, Arrays, Cuts, Field, Fields, elements, subset
from distrain_trainer.errors import ArgumentError
from distrain_trainer.pytorch.ema import Ema
from distrain_trainer.pytorch.optimizers import Lamb

# Settings of a parameter group that are not loaded from a checkpoint, because the user may have changed their values.
OF_VALUES = ("weight_decay", "decoupled_weight_decay")


class TorchState:
    """The tensors and numbers in the state dictionaries of a model, of its optimizer and of its gradient scaler.

    The state dictionary of an optimizer identifies parameters by numbers. Checkpoints contain the parameters' names
    instead. `optimizer` must be the object whose step() is called, because Horovod's wrapper and the optimizer inside
    it have separate states.
    """

    def __init__(self, model: Any, optimizer: Any, scaler: Any, ema: Ema | None = None) -> None:
        self._model, self._optimizer, self._scaler, self._ema = model, optimizer, scaler, ema
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = optimizer.param_groups
        self._names = [names[id(parameter)] for group in groups for parameter in group["params"]]
        require_storable(model)

    def fields(self) -> Fields:
        return {name: field_of(name, tensor) for name, tensor in self._tensors().items()}

    def later_fields(self) -> Fields:
        is_adam, is_lamb = (
            isinstance(self._optimizer, (torch.optim.Adam, torch.optim.AdamW)),
            isinstance(self._optimizer, Lamb),
        )
        like_weight = ("exp_avg", "exp_avg_sq") if is_adam or is_lamb else ("momentum_buffer",)
        fields: dict[str, Field] = {}
        for name, parameter in self._model.named_parameters():
            fields |= {f"optimizer.{name}.{slot}": field_of(name, parameter) for slot in like_weight}
            if is_adam:
                fields[f"optimizer.{name}.step"] = Field("F32", ())
            if is_lamb:
                fields[f"optimizer.{name}.updates"] = Field.of(name, type_of(parameter), ())
        return fields

    def trained_bytes(self) -> int:
        trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        return sum(parameter.numel() * parameter.element_size() for parameter in trained)

    def wait(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def unshared(self) -> set[str]:
        trained = {name for name, _ in self._model.named_parameters(remove_duplicate=False)}
        return {f"model.{name}" for name in self._model.state_dict() if name not in trained}

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        tensors = self._tensors()
        for name, place in into.items():
            copy_to_host(elements(tensors[name], cuts.get(name), place.size), place)

    def load(self, arrays: Arrays) -> None:
        model = self._model.state_dict()
        given = subset(arrays, "model.")
        loaded = {name: to_tensor(given[name], model[name].dtype) for name in given}
        # Copy the tensor: a module may keep what its set_extra_state receives, and the memory of the arrays is reused.
        loaded |= {name: tensor.clone() for name, tensor in loaded.items() if name.endswith("_extra_state")}
        self._model.load_state_dict(loaded)
        self._optimizer.load_state_dict(self._optimizer_state(arrays))
        take_layouts(self._optimizer)
        if self._ema is not None and (averages := subset(arrays, "ema.")):
            self._ema.load({name: to_tensor(average) for name, average in averages.items()})
        scaler = {name: number.item() for name, number in subset(arrays, "scaler.").items()}
        if scaler:
            self._scaler.load_state_dict(scaler)

    def _optimizer_state(self, arrays: Arrays) -> dict[str, Any]:
        """Return the optimizer's state dictionary, with copies of the arrays."""
        kept: dict[int, dict[str, Any]] = {}
        places = {name: number for number, name in enumerate(self._names)}
        for path, array in subset(arrays, "optimizer.").items():
            name, _, slot = path.rpartition(".")
            kept.setdefault(places[name], {})[slot] = to_tensor(array).clone()
        groups = self._optimizer.state_dict()["param_groups"]
        for number, group in enumerate(groups):
            for key, value in subset(arrays, f"group.{number}.").items():
                if key in OF_VALUES:
                    continue
                group[key] = tuple(value.tolist()) if value.ndim else value.item()
        return {"state": kept, "param_groups": groups}

    def _tensors(self) -> dict[str, Any]:
        state = self._optimizer.state_dict()
        averages = self._ema.averages if self._ema is not None else {}
        tensors = flat(self._model.state_dict(), state, self._scaler.state_dict(), self._names)
        return tensors | {f"ema.{name}": average for name, average in averages.items()}

    def former(self, content: bytes) -> Arrays:
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        in_order = [name for name, _ in self._model.named_parameters()]
        tensors = flat(loaded["model"], loaded["optimizer"], loaded["scaler"], in_order)
        return {name: to_array(tensor) for name, tensor in tensors.items()}


def flat(
    model: Mapping[str, Any], optimizer: Mapping[str, Any], scaler: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Return the tensors of the state dictionaries, keyed by their names in a checkpoint. Numbers become tensors."""
    found: dict[str, Any] = {f"model.{name}": tensor for name, tensor in model.items()}
    by_number = dict(enumerate(names))
    for number, kept in optimizer["state"].items():
        # A checkpoint of format 1 may come from a model with more parameters. The comparison of shapes refuses it
        # later.
        name = by_number.get(number, number)
        found |= {f"optimizer.{name}.{slot}": value for slot, value in kept.items()}
    for number, group in enumerate(optimizer["param_groups"]):
        # Leave out `fused`, which checkpoints of earlier versions do not contain.
        found |= {f"group.{number}.{key}": value for key, value in group.items() if key not in ("params", "fused")}
    found |= {f"scaler.{key}": value for key, value in scaler.items()}
    return {name: of_number(value) for name, value in found.items() if value is not None}


def take_layouts(optimizer: Any) -> None:
    """Give each tensor of the optimizer the memory layout of its weight, which fused optimizers require."""
    for parameter, kept in optimizer.state.items():
        for slot, tensor in kept.items():
            if tensor.shape == parameter.shape and tensor.stride() != parameter.stride():
                kept[slot] = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)


def require_storable(model: Any) -> None:
    """Raise ArgumentError if a model has complex weights, or if its state_dict() contains anything but tensors."""
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise ArgumentError(
                f"trainer.model: the weight {name} is of type {type_of(parameter)}, but gradients are averaged as real "
                "numbers; make it a real tensor, and call torch.view_as_complex on it in forward()"
            )
    for name, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise ArgumentError(
                f"trainer.model: {name} in the model's state_dict() is of type {type(value).__name__}, and a "
                "checkpoint holds tensors; return a tensor from get_extra_state, or register a buffer instead"
            )
        if any(size > 1 and step == 0 for size, step in zip(value.shape, value.stride(), strict=True)):
            raise ArgumentError(
                f"trainer.model: {name} in the model's state_dict() is made by expand(), so its elements share memory "
                "and a checkpoint cannot be loaded into it; add .clone()"
            )


def of_number(value: Any) -> Any:
    """Convert a number or a sequence of numbers, for example Adam's betas, to a tensor. Return tensors unchanged."""
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))


def field_of(name: str, tensor: Any) -> Field:
    return Field.of(name, type_of(tensor), tensor.shape)


def type_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def copy_to_host(tensor: Any, place: Any) -> None:
    """Copy a tensor into host memory.

    A tensor on the host is copied by NumPy, because copy_ takes 1.2 to 2 times as long.
    """
    if tensor.device.type == "cpu":
        place[...] = to_array(tensor).view(place.dtype)
    else:
        to_tensor(place, tensor.dtype).copy_(tensor)


def to_array(tensor: Any) -> Any:
    """Return a tensor on the host as an array. If NumPy has the element type, the array shares the tensor's memory."""
    if tensor.dtype == torch.bfloat16:
        return tensor.detach().view(torch.uint16).numpy().view(BFLOAT16)
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def to_tensor(array: Any, dtype: Any = torch.bfloat16) -> Any:
    """Return a tensor that shares the memory of an array.

    NumPy has no type bfloat16, so such values are stored in an array of uint16.
    """
    tensor = torch.from_numpy(array)
    return tensor.view(dtype) if (tensor.dtype, dtype) == (torch.uint16, torch.bfloat16) else tensor
