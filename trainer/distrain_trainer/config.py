"""Declare the arguments of the command line as a frozen Config, parse them, and check their values."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, NoReturn

from distrain_trainer.errors import ArgumentError
from distrain_trainer.models import MODELS
from distrain_trainer.models.user import is_users
from distrain_trainer.recipe import EXTRA_ARGS, Recipe, argument

FRAMEWORKS = ("tensorflow", "pytorch", "mxnet")
STRATEGIES = ("allreduce", "parameter-server")
PRECISIONS = ("fp32", "fp16", "bf16")
RESUMES = ("auto", "never")
KVSTORES = ("dist_sync", "dist_async", "dist_device_sync")
SYNTHETIC = "synthetic"


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """All arguments of a run; the class Recipe declares some of them. batch_size is per rank."""

    framework: str = argument("tensorflow", path="framework", choices=FRAMEWORKS)
    strategy: str = argument("allreduce", "how ranks exchange gradients", path="strategy", choices=STRATEGIES)
    model: str = argument("mnist", f"{', '.join(MODELS)}, or module:function, which makes one of your own")
    batch_size: int = argument(64, "samples per rank and step", minimum=1)
    steps: int | None = argument(None, "train this many steps; or give --epochs", minimum=1)
    epochs: int | None = argument(None, "go through the data this many times", minimum=1)
    precision: str = argument("fp32", "fp16 and bf16 need a GPU", choices=PRECISIONS)
    seed: int = argument(0, minimum=0)
    log_every: int = argument(10, "steps between two log lines", minimum=1)
    data: str = argument(
        SYNTHETIC, "synthetic, or s3://bucket/prefix or a folder of idx files, images or shards", path="data.uri"
    )
    image_size: int | None = argument(
        None, "scale and crop images to so many pixels each way, for training at random", path=EXTRA_ARGS, minimum=1
    )
    classes: int | None = argument(
        None, "the number of classes, where the data does not tell or should have more", path=EXTRA_ARGS, minimum=1
    )
    output: str = argument(
        "", "s3://bucket/prefix or a folder for the model, log and results; '' writes none", path="output.uri"
    )
    kvstore: str | None = argument(
        None,
        "MXNet's parameter server alone: dist_sync (if not given) waits for every worker's gradients at each "
        "step, dist_async for none, dist_device_sync adds up those of a worker's GPUs on a GPU first",
        path=EXTRA_ARGS,
        choices=KVSTORES,
    )
    checkpoint: str = argument("", "s3://bucket/prefix or a folder to save to and resume from", path="checkpoint.uri")
    checkpoint_every: float | None = argument(
        None,
        "seconds between checkpoints, or auto: what loses least work, by how long saving takes",
        path="checkpoint.every",
    )
    checkpoint_keep: int = argument(3, "how many checkpoints stay", path="checkpoint.keep", minimum=1)
    checkpoint_max_age: float = argument(
        1800.0,
        "seconds for which saving may fail, until the run stops, to go on from its last checkpoint",
        path="checkpoint.maxAge",
    )
    checkpoint_at_end: bool = argument(
        False, "save the last state too, so that more epochs can follow", path=EXTRA_ARGS
    )
    resume: str = argument(
        "auto", "never: begin anew, but for restarts of this job", path="checkpoint.resume", choices=RESUMES
    )
    max_bad_steps: int = argument(
        10, "steps in a row that may be left out because the loss or a gradient is no finite number", minimum=0
    )
    max_bad_share: float = argument(
        0.001, "share of the samples that may be left out because their image is damaged", path="data.maxBadShare"
    )
    cache: str = argument("", "a folder that keeps what was read of shards; '' keeps none", path="data.cache.folder")
    cache_size: int = argument(100 * 1024**3, "bytes that --cache may take", path="data.cache.size", minimum=1)
    metrics_port: int | None = argument(
        None, "serve metrics to Prometheus on this port of each pod; not given: none", path="monitoring.port", minimum=1
    )
    tensorboard: bool = argument(False, "write event files for TensorBoard below --output")
    compile: bool = argument(
        False,
        "compile the model, for faster steps after a minute; on a GPU, with PyTorch or TensorFlow",
        path=EXTRA_ARGS,
    )
    deterministic: bool = argument(
        False,
        "the same values give the same weights, bit by bit, at the same size, however often interrupted; slower",
        path=EXTRA_ARGS,
    )

    def __post_init__(self) -> None:
        """Raise ArgumentError with the path of the chart value if a value is invalid, or if two values contradict each
        other.
        """
        if not (self.model in MODELS or is_users(self.model)):
            raise ArgumentError(
                f"trainer.model: {self.model!r} is neither {', '.join(MODELS)} nor module:function (your own model)"
            )
        for each in fields(self):
            value, minimum = getattr(self, each.name), each.metadata["minimum"]
            if minimum > -math.inf and value is not None and value < minimum:
                raise ArgumentError(f"{_path_of(each)}: {value} is below {minimum}; give {minimum} or more")
        if not 0 <= self.max_bad_share <= 1:
            raise ArgumentError(f"data.maxBadShare: {self.max_bad_share} is not from 0 to 1; give 0.001, for example")
        if self.cache and not self.cache.startswith("/"):
            raise ArgumentError(f"data.cache.folder: {self.cache!r} is not an absolute path; name a folder on a volume")
        self._check_length()
        self.require_recipe(strategy=self.strategy, is_synthetic=self.is_synthetic, image_size=self.image_size)
        places = (("data", self.data, SYNTHETIC), ("output", self.output, ""), ("checkpoint", self.checkpoint, ""))
        for name, uri, none in places:
            if uri != none and not _is_uri(uri):
                raise ArgumentError(f"{name}.uri: {uri!r} is neither s3://bucket/prefix nor an absolute path")
        if self.checkpoint_every is not None and not (
            math.isfinite(self.checkpoint_every) and self.checkpoint_every > 0
        ):
            raise ArgumentError(f"checkpoint.every: {self.checkpoint_every:g} seconds; give more than 0, or auto")
        if not self.checkpoint_max_age > 0:
            raise ArgumentError(f"checkpoint.maxAge: {self.checkpoint_max_age:g} seconds; give more than 0")
        if self.kvstore and (self.framework, self.strategy) != ("mxnet", "parameter-server"):
            raise ArgumentError(
                "trainer.extraArgs: --kvstore works only with mxnet and a parameter server, but this run uses "
                f"{self.framework} with {self.strategy}; remove it, or set framework=mxnet and "
                "strategy=parameter-server"
            )
        if self.tensorboard and not self.output:
            raise ArgumentError(
                "trainer.tensorboard: event files are written below output.uri, which is empty; set it, or set "
                "trainer.tensorboard to false"
            )
        if self.compile and self.framework == "mxnet":
            raise ArgumentError(
                "trainer.extraArgs: --compile works only with PyTorch and TensorFlow, but framework is mxnet; remove it"
            )

    def _check_length(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ArgumentError(
                f"trainer.steps: {self.steps} steps and {self.epochs} trainer.epochs are both set; set one"
            )
        if self.steps is None and self.epochs is None:
            raise ArgumentError("trainer.steps: neither trainer.steps nor trainer.epochs is set; set one")
        if self.is_synthetic and self.epochs is not None:
            raise ArgumentError(
                "trainer.epochs: synthetic data has no end, so it has no epochs; set trainer.steps instead"
            )

    @property
    def is_synthetic(self) -> bool:
        return self.data == SYNTHETIC


def parse(argv: Sequence[str]) -> Config:
    """Parse a command line. Raises ArgumentError if the text is invalid."""
    return Config(**vars(_parser().parse_args(argv)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise ArgumentError with the path of the chart value, because users of the chart do not see the arguments."""
        if message.startswith("unrecognized arguments"):
            raise ArgumentError(
                f"trainer.extraArgs: {message}; `python3 -m distrain_trainer --help` lists the known ones"
            )
        found = re.fullmatch(r"argument --([a-z-]+): (.*)", message)
        if found is None:
            raise ArgumentError(f"trainer.extraArgs: {message}")
        [given] = [each for each in fields(Config) if _flag(each) == f"--{found[1]}"]
        raise ArgumentError(f"{_path_of(given)}: {found[2]}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="distrain_trainer", allow_abbrev=False, description="Train a model, one process per rank.")
    for each in fields(Config):
        told: dict[str, Any] = {"default": each.default, "help": each.metadata["help"]}
        told |= TYPES.get(each.type) or {"choices": each.metadata["choices"]}
        parser.add_argument(_flag(each), **told)
    return parser


def _seconds(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number of seconds") from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(",") if text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, such as 30,60") from None


# The argparse options for each type of field. Text fields need none.
TYPES: dict[Any, dict[str, Any]] = {
    "tuple[float, ...]": {"type": _numbers},
    "int": {"type": int},
    "int | None": {"type": int},
    "float": {"type": float},
    "float | None": {"type": _seconds},
    "bool": {"action": "store_true"},
}


def _flag(argument: Field[Any]) -> str:
    return f"--{argument.name.replace('_', '-')}"


def _path_of(argument: Field[Any]) -> str:
    """Return the path of the chart value that sets the argument."""
    path = argument.metadata["path"]
    if path == EXTRA_ARGS:
        return f"{EXTRA_ARGS}: {_flag(argument)}"
    first, *rest = argument.name.split("_")
    return path or "trainer." + first + "".join(word.capitalize() for word in rest)


def _is_uri(uri: str) -> bool:
    return uri.startswith("/") or re.match(r"s3://[^/]", uri) is not None
