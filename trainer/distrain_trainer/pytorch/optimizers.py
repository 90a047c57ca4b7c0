"""The optimizers of the PyTorch programs. PyTorch lacks LARS and LAMB, so this module defines them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from distrain_trainer.config import Config


def make_optimizer(config: Config, model: Any) -> Any:
    """Return the optimizer.

    The learning rate is set later, in each step. A fused optimizer updates all weights in a few GPU kernels.
    """
    decay = config.weight_decay
    if config.optimizer == "lars":
        return Lars(model.parameters(), weight_decay=decay)
    if config.optimizer == "lamb":
        return Lamb(model.parameters(), weight_decay=decay)
    groups = groups_of(model, decay) if decay else model.parameters()
    if config.optimizer == "adam":
        # AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
        return torch.optim.AdamW(groups, fused=True) if decay else torch.optim.Adam(groups, fused=True)
    return torch.optim.SGD(groups, momentum=0.9, fused=True)


def groups_of(model: Any, decay: float) -> list[dict[str, Any]]:
    """Return the parameters in two groups, with weight decay and without."""
    parameters = list(model.parameters())
    groups = (
        {"params": [each for each in parameters if decays(each)], "weight_decay": decay},
        {"params": [each for each in parameters if not decays(each)], "weight_decay": 0.0},
    )
    return [group for group in groups if group["params"]]


def decays(parameter: Any) -> bool:
    """Return whether a parameter has weight decay.

    Weight decay does not apply to biases and normalization weights, which have one dimension.
    """
    return bool(parameter.dim() > 1)


def begin_momentum(optimizer: Any) -> None:
    """Initialize the momentum with zeros.

    Without this, fused SGD would use uninitialized memory as momentum after a first step that is left out.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if "momentum" in group else ():
            optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))


class Layerwise(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not installed where types are checked
    """An optimizer that multiplies each weight's update by a factor.

    The factor depends on the norms of the weight and of its gradient.

    Biases and normalization weights have no weight decay, and their updates are not scaled.
    """

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Make the step. If the attribute `found_inf` is a tensor that is not 0, change nothing.

        PyTorch's fused optimizers use the same attribute. So this process can queue the step on a GPU before it knows
        whether all gradients are finite.
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._change(parameter, group)

    def _change(self, parameter: Any, group: dict[str, Any]) -> None:
        state, is_left_out = self.state[parameter], getattr(self, "found_inf", None)
        for tensor, new in self._updated(parameter, state, group):
            tensor.copy_(new if is_left_out is None else torch.where(is_left_out > 0, tensor, new))

    def _updated(self, parameter: Any, state: dict[str, Any], group: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of a tensor and its value after the step: for the parameter, and for each tensor of its state."""
        raise NotImplementedError


class Lars(Layerwise):
    """Layer-wise Adaptive Rate Scaling with momentum: You et al. 2017, arXiv:1708.03888, algorithm 1.

    The trust ratio is trust * |w| / (|g| + weight_decay * |w|), or 1 if a norm is 0.
    """

    def __init__(
        self, params: Any, lr: float = 0.0, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 0.001
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def _updated(self, parameter: Any, state: dict[str, Any], group: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        momentum = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
        gradient = parameter.grad
        if decays(parameter):
            weight_norm, gradient_norm = parameter.norm(), gradient.norm()
            size = gradient_norm + group["weight_decay"] * weight_norm
            ratio = torch.where(weight_norm * size > 0, group["trust"] * weight_norm / size, 1.0)
            gradient = ratio * (gradient + group["weight_decay"] * parameter)
        new = group["momentum"] * momentum + group["lr"] * gradient
        yield momentum, new
        yield parameter, parameter - new


class Lamb(Layerwise):
    """LAMB: Adam, with each weight's update scaled to the weight's norm (You et al. 2020, arXiv:1904.00962).

    The ratio is |w| / |r + weight_decay * w| with Adam's bias-corrected update r, or 1 if a norm is 0.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _updated(self, parameter: Any, state: dict[str, Any], group: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        if not state:
            # Count the steps on the device, because the device decides whether a step is left out. The name must not be
            # "step": PyTorch loads a state of that name to the CPU.
            state["updates"] = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        gradient, step = parameter.grad, state["updates"] + 1
        of_mean, of_square = group["betas"]
        mean = of_mean * state["exp_avg"] + (1 - of_mean) * gradient
        square = of_square * state["exp_avg_sq"] + (1 - of_square) * gradient * gradient
        update = mean / (1 - of_mean**step) / ((square / (1 - of_square**step)).sqrt() + group["eps"])
        if decays(parameter):
            update = update + group["weight_decay"] * parameter
            weight_norm, size = parameter.norm(), update.norm()
            update = torch.where(weight_norm * size > 0, weight_norm / size, 1.0) * update
        yield state["updates"], step
        yield state["exp_avg"], mean
        yield state["exp_avg_sq"], square
        yield parameter, parameter - group["lr"] * update
