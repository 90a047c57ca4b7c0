"""Declare the arguments of the training recipe: how the weights are optimized, and how images are augmented.

docs/recipe.md explains the arguments. Config inherits them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from distrain_trainer.errors import ArgumentError

T = TypeVar("T")

OPTIMIZERS = ("sgd", "adam", "lars", "lamb")
SCHEDULES = ("constant", "cosine", "step")
RATE_SCALINGS = ("auto", "linear", "sqrt", "none")
# If an argument has no chart value of its own, messages name this value.
EXTRA_ARGS = "trainer.extraArgs"


def argument(
    default: T, help: str | None = None, *, path: str = "", minimum: float = -math.inf, choices: Sequence[str] = ()
) -> T:
    """Return the dataclass field of a command line argument.

    `path` is the path of its chart value. By default, the path is trainer.<argument>.
    """
    metadata = {"help": help, "path": path, "minimum": minimum, "choices": choices or None}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The arguments of the recipe. learning_rate is for a global batch of 256."""

    optimizer: str = argument("sgd", "sgd and lars have momentum 0.9", choices=OPTIMIZERS)
    learning_rate: float = argument(0.1, "for a global batch of 256; scaled to the real one")
    rate_scaling: str = argument(
        "auto",
        "how the rate grows with the global batch: auto is linear for sgd and lars, sqrt for adam and lamb",
        choices=RATE_SCALINGS,
    )
    warmup: int = argument(0, "steps over which the learning rate rises from 0", minimum=0)
    warmup_epochs: float = argument(0.0, "the same in epochs; give one of the two", minimum=0)
    schedule: str = argument("constant", "how the learning rate falls after the warm-up", choices=SCHEDULES)
    milestones: tuple[float, ...] = argument((), "epochs after each of which --schedule=step lowers the rate: 30,60,80")
    decay_factor: float = argument(0.1, "by which --schedule=step multiplies the rate after each milestone")
    weight_decay: float = argument(
        0.0, "pulls weights to 0, but not biases and those of normalization; decoupled for adam", minimum=0
    )
    label_smoothing: float = argument(0.0, "share of a label that is spread over all classes", minimum=0)
    ema: float = argument(
        0.0, "decay of a moving average of the weights, which is tested and saved, such as 0.9999; 0: none", minimum=0
    )
    evaluate_every: int | None = argument(
        None, "also test after every so many epochs, and keep the best model", minimum=1
    )
    augment_scale: tuple[float, ...] = argument(
        (), "train on crops with this share of an image's area: 0.08,1", path="trainer.augment.scale"
    )
    augment_ratio: tuple[float, ...] = argument(
        (), "range of the crops' width divided by their height: 0.75,1.33 if not given", path="trainer.augment.ratio"
    )
    augment_flip: str | None = argument(
        None,
        "mirror half of the training images; not given: if --image-size is, and they are not grey",
        path="trainer.augment.flip",
        choices=("true", "false"),
    )
    augment_mean: tuple[float, ...] = argument(
        (), "subtracted from each channel, which is between 0 and 1", path="trainer.augment.mean"
    )
    augment_std: tuple[float, ...] = argument((), "by which each channel is then divided", path="trainer.augment.std")
    augment_test_resize: int | None = argument(
        None,
        "test on the centre of images whose shorter side is scaled to so many pixels",
        path="trainer.augment.testResize",
        minimum=1,
    )

    def require_recipe(self, *, strategy: str, is_synthetic: bool, image_size: int | None) -> None:
        """Raise ArgumentError with the path of the chart value if the recipe is invalid or does not fit the run."""
        self._require_numbers()
        self._require_schedule(is_synthetic)
        if strategy == "parameter-server":
            self._require_weights_on_servers()
        self._require_augmentation()
        self._require_image_size(image_size)

    def _require_numbers(self) -> None:
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ArgumentError(
                f"trainer.learningRate: {self.learning_rate} is no rate; give a number above 0, such as 0.1"
            )
        if not 0 < self.decay_factor <= 1:
            raise ArgumentError(
                f"trainer.decayFactor: {self.decay_factor} is no factor; give one above 0 and up to 1, such as 0.1"
            )
        if not self.weight_decay <= 1:
            raise ArgumentError(f"trainer.weightDecay: {self.weight_decay} is above 1; give 0.0001, for example")
        for name, value in (("labelSmoothing", self.label_smoothing), ("ema", self.ema)):
            if not 0 <= value < 1:
                raise ArgumentError(f"trainer.{name}: {value} is not below 1; give a number from 0 to below 1")

    def _require_schedule(self, is_synthetic: bool) -> None:
        if self.warmup and self.warmup_epochs:
            raise ArgumentError(
                f"trainer.warmupEpochs: {self.warmup_epochs:g} epochs, and trainer.warmup {self.warmup} steps; set one "
                "of the two"
            )
        if not math.isfinite(self.warmup_epochs):
            raise ArgumentError(
                f"trainer.warmupEpochs: {self.warmup_epochs} is no number of epochs; give one, such as 5"
            )
        text = _text(self.milestones)
        if (self.schedule == "step") != bool(self.milestones):
            raise ArgumentError(
                f"trainer.milestones: {text or 'none'}, but trainer.schedule is {self.schedule}; set milestones, such "
                "as 30,60,80, only together with schedule step"
            )
        if not _rises((0.0, *self.milestones, math.inf)):
            raise ArgumentError(
                f"trainer.milestones: {text} are not ascending epochs above 0; correct them, as in 30,60,80"
            )
        if is_synthetic:
            self._require_no_epochs()

    def _require_no_epochs(self) -> None:
        of = {"milestones": self.milestones, "warmupEpochs": self.warmup_epochs, "evaluateEvery": self.evaluate_every}
        for name, value in of.items():
            if value:
                raise ArgumentError(
                    f"trainer.{name}: is in epochs, and synthetic data has none; set data.uri, or remove trainer.{name}"
                )

    def _require_weights_on_servers(self) -> None:
        """Refuse arguments that require all weights in one process, because each parameter server has only a part of
        the weights.
        """
        if self.optimizer in ("lars", "lamb"):
            raise ArgumentError(
                f"trainer.optimizer: {self.optimizer} needs the norm of each whole weight, but each parameter "
                "server holds only a part of a weight; set it to sgd or adam, or strategy to allreduce"
            )
        for name, value in (("ema", self.ema), ("evaluateEvery", self.evaluate_every)):
            if value:
                raise ArgumentError(
                    f"trainer.{name}: {value} needs all workers at the same step, but with parameter servers the "
                    f"workers are at different steps; remove trainer.{name}, or set strategy to allreduce"
                )

    def _require_augmentation(self) -> None:
        scale, ratio, mean, std = self.augment_scale, self.augment_ratio, self.augment_mean, self.augment_std
        if scale and not (len(scale) == 2 and 0 < scale[0] <= scale[1] <= 1):
            raise ArgumentError(
                f"trainer.augment.scale: is {_text(scale)}, but must be the smallest and the largest share of an "
                "image's area; give two ascending numbers above 0 and up to 1, such as 0.08,1"
            )
        if ratio and not (scale and len(ratio) == 2 and 0 < ratio[0] <= ratio[1] < math.inf):
            raise ArgumentError(
                f"trainer.augment.ratio: is {_text(ratio)}, but must be two ascending numbers above 0, and needs "
                "trainer.augment.scale; give numbers such as 0.75,1.33, and set trainer.augment.scale too"
            )
        is_good = len(mean) == len(std) and all(map(math.isfinite, mean)) and all(0 < each < math.inf for each in std)
        if not is_good:
            raise ArgumentError(
                f"trainer.augment.mean: {_text(mean) or 'none'}, with trainer.augment.std {_text(std) or 'none'}; give "
                "equally many numbers for both, with each std above 0"
            )

    def _require_image_size(self, image_size: int | None) -> None:
        for name, value in (("scale", _text(self.augment_scale)), ("testResize", self.augment_test_resize)):
            if value and image_size is None:
                raise ArgumentError(
                    f"trainer.augment.{name}: {value} needs the size to which images are scaled; add --image-size=224 "
                    f"or another to {EXTRA_ARGS}"
                )
        if self.augment_test_resize and self.augment_test_resize < (image_size or 0):
            raise ArgumentError(
                f"trainer.augment.testResize: {self.augment_test_resize} is below --image-size={image_size}, the size "
                f"of the part that is cut out afterwards; give {image_size} or more"
            )


def _rises(numbers: Sequence[float]) -> bool:
    return all(before < after for before, after in itertools.pairwise(numbers))


def _text(numbers: Sequence[float]) -> str:
    return ",".join(f"{each:g}" for each in numbers)
