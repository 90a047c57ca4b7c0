"""Parse the command line into a frozen Config, and check its values."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from distrain_trainer.errors import ArgumentError
from distrain_trainer.models import MODELS
from distrain_trainer.models.user import is_users

FRAMEWORKS = ("tensorflow", "pytorch", "mxnet")
STRATEGIES = ("allreduce", "parameter-server")
PRECISIONS = ("fp32", "fp16", "bf16")
OPTIMIZERS = ("sgd", "adam")
RESUMES = ("auto", "never")
KVSTORES = ("dist_sync", "dist_async", "dist_device_sync")
SYNTHETIC = "synthetic"
CHECKPOINT_PATHS = {
    "checkpoint": "checkpoint.uri",
    "checkpoint-every": "checkpoint.every",
    "checkpoint-keep": "checkpoint.keep",
    "checkpoint-max-age": "checkpoint.maxAge",
    "resume": "checkpoint.resume",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a run. batch_size is per rank; learning_rate is for a global batch of 256."""

    framework: str = "tensorflow"
    strategy: str = "allreduce"
    model: str = "mnist"
    batch_size: int = 64
    steps: int | None = None
    epochs: int | None = None
    precision: str = "fp32"
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    warmup: int = 0
    seed: int = 0
    log_every: int = 10
    data: str = SYNTHETIC
    image_size: int | None = None
    classes: int | None = None
    output: str = ""
    kvstore: str | None = None
    checkpoint: str = ""
    checkpoint_every: float | None = None
    checkpoint_keep: int = 3
    checkpoint_max_age: float = 1800.0
    checkpoint_at_end: bool = False
    resume: str = "auto"
    deterministic: bool = False
    max_bad_steps: int = 10
    max_bad_share: float = 0.001

    def __post_init__(self) -> None:
        """Raise ArgumentError, with the chart value's path, if a value is invalid or two do not go together."""
        if not (self.model in MODELS or is_users(self.model)):
            raise ArgumentError(
                f"trainer.model: {self.model!r} is neither {', '.join(MODELS)} nor module:function, a model of your own"
            )
        _require_at_least("trainer.batchSize", self.batch_size, 1)
        _require_at_least("trainer.logEvery", self.log_every, 1)
        _require_at_least("trainer.warmup", self.warmup, 0)
        _require_at_least("trainer.seed", self.seed, 0)
        _require_at_least("trainer.maxBadSteps", self.max_bad_steps, 0)
        if not 0 <= self.max_bad_share <= 1:
            raise ArgumentError(f"data.maxBadShare: {self.max_bad_share} is no share; give 0 to 1, such as 0.001")
        for flag, value in (("--image-size", self.image_size), ("--classes", self.classes)):
            if value is not None:
                _require_at_least(f"trainer.extraArgs: {flag}", value, 1)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ArgumentError(
                f"trainer.learningRate: {self.learning_rate} is no rate; give a number above 0, such as 0.1"
            )
        self._check_length()
        if not (self.is_synthetic or _is_uri(self.data)):
            raise ArgumentError(f"data.uri: {self.data!r} is neither s3://bucket/prefix nor an absolute folder")
        if self.output and not _is_uri(self.output):
            raise ArgumentError(f"output.uri: {self.output!r} is neither s3://bucket/prefix nor an absolute folder")
        if self.checkpoint and not _is_uri(self.checkpoint):
            raise ArgumentError(
                f"checkpoint.uri: {self.checkpoint!r} is neither s3://bucket/prefix nor an absolute folder"
            )
        if self.checkpoint_every is not None and not (
            math.isfinite(self.checkpoint_every) and self.checkpoint_every > 0
        ):
            raise ArgumentError(f"checkpoint.every: {self.checkpoint_every:g} seconds; give more than 0, or auto")
        if not self.checkpoint_max_age > 0:
            raise ArgumentError(f"checkpoint.maxAge: {self.checkpoint_max_age:g} seconds; give more than 0")
        _require_at_least("checkpoint.keep", self.checkpoint_keep, 1)
        if self.kvstore and (self.framework, self.strategy) != ("mxnet", "parameter-server"):
            raise ArgumentError(
                f"trainer.extraArgs: --kvstore is MXNet's, with a parameter server, and this run is {self.framework}'s "
                f"with {self.strategy}; remove it, or set framework=mxnet and strategy=parameter-server"
            )

    def _check_length(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ArgumentError(
                f"trainer.steps: {self.steps} steps and {self.epochs} trainer.epochs are both set; set one"
            )
        if self.steps is not None:
            _require_at_least("trainer.steps", self.steps, 1)
        elif self.epochs is not None:
            _require_at_least("trainer.epochs", self.epochs, 1)
        else:
            raise ArgumentError("trainer.steps: neither trainer.steps nor trainer.epochs is set; set one")
        if self.is_synthetic and self.epochs is not None:
            raise ArgumentError(
                "trainer.epochs: synthetic data has no end to count epochs by; set trainer.steps instead"
            )

    @property
    def is_synthetic(self) -> bool:
        return self.data == SYNTHETIC


def parse(argv: Sequence[str]) -> Config:
    """Parse a command line. Raises ArgumentError if it is invalid."""
    return Config(**vars(_parser().parse_args(argv)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise ArgumentError with the path of the chart value, as users of the chart do not know the arguments."""
        if message.startswith("unrecognized arguments"):
            raise ArgumentError(
                f"trainer.extraArgs: {message}; `python3 -m distrain_trainer --help` lists the known ones"
            )
        found = re.fullmatch(r"argument --([a-z-]+): (.*)", message)
        if found is None:
            raise ArgumentError(f"trainer.extraArgs: {message}")
        raise ArgumentError(f"{_value_path(found[1])}: {found[2]}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="distrain_trainer", allow_abbrev=False, description="Train a model, one process per rank.")
    add = parser.add_argument
    add("--framework", choices=FRAMEWORKS, default=Config.framework)
    add("--strategy", choices=STRATEGIES, default=Config.strategy, help="how ranks exchange gradients")
    add("--model", default=Config.model, help=f"{', '.join(MODELS)}, or module:function, which makes one of your own")
    add("--batch-size", type=int, default=Config.batch_size, help="samples per rank and step")
    add("--steps", type=int, help="train this many steps; or give --epochs")
    add("--epochs", type=int, help="go through the data this many times")
    add("--precision", choices=PRECISIONS, default=Config.precision, help="fp16 and bf16 need a GPU")
    add("--optimizer", choices=OPTIMIZERS, default=Config.optimizer, help="sgd has momentum 0.9")
    add(
        "--learning-rate",
        type=float,
        default=Config.learning_rate,
        help="for a global batch of 256; scaled to the real one",
    )
    add("--warmup", type=int, default=Config.warmup, help="steps over which the learning rate rises from 0")
    add("--seed", type=int, default=Config.seed)
    add("--log-every", type=int, default=Config.log_every, help="steps between two log lines")
    add(
        "--data",
        default=Config.data,
        help="synthetic, or s3://bucket/prefix or a folder of idx files, images or shards",
    )
    add("--image-size", type=int, help="scale and crop images to so many pixels each way, for training at random")
    add("--classes", type=int, help="the number of classes, where the data does not tell or should have more")
    add(
        "--output",
        default=Config.output,
        help="s3://bucket/prefix or a folder for the model, log and results; '' writes none",
    )
    add(
        "--kvstore",
        choices=KVSTORES,
        help="MXNet's parameter server alone: dist_sync (if not given) waits for every worker's gradients at each "
        "step, dist_async for none, dist_device_sync adds up those of a worker's GPUs on a GPU first",
    )
    add("--checkpoint", default=Config.checkpoint, help="s3://bucket/prefix or a folder to save to and resume from")
    add(
        "--checkpoint-every",
        type=_seconds,
        help="seconds between checkpoints, or auto: what loses least work, by how long saving takes",
    )
    add("--checkpoint-keep", type=int, default=Config.checkpoint_keep, help="how many checkpoints stay")
    add(
        "--checkpoint-max-age",
        type=float,
        default=Config.checkpoint_max_age,
        help="seconds for which saving may fail, until the run stops, to go on from its last checkpoint",
    )
    add("--checkpoint-at-end", action="store_true", help="save the last state too, so that more epochs can follow")
    add("--resume", choices=RESUMES, default=Config.resume, help="never: begin anew, but for restarts of this job")
    add(
        "--max-bad-steps",
        type=int,
        default=Config.max_bad_steps,
        help="steps in a row that may be left out because the loss or a gradient is no finite number",
    )
    add(
        "--max-bad-share",
        type=float,
        default=Config.max_bad_share,
        help="share of the samples that may be left out because their image is damaged",
    )
    add(
        "--deterministic",
        action="store_true",
        help="the same values give the same weights, bit by bit, at the same size, however often interrupted; slower",
    )
    return parser


def _seconds(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number of seconds") from None


def _value_path(flag: str) -> str:
    if flag in ("kvstore", "deterministic", "checkpoint-at-end"):
        return f"trainer.extraArgs: --{flag}"
    if flag in CHECKPOINT_PATHS:
        return CHECKPOINT_PATHS[flag]
    if flag == "max-bad-share":
        return "data.maxBadShare"
    if flag in ("framework", "strategy"):
        return flag
    if flag in ("data", "output"):
        return f"{flag}.uri"
    if flag in ("image-size", "classes"):
        return f"trainer.extraArgs: --{flag}"
    first, *rest = flag.split("-")
    return "trainer." + first + "".join(word.capitalize() for word in rest)


def _require_at_least(path: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ArgumentError(f"{path}: {value} is below {minimum}; give {minimum} or more")


def _is_uri(uri: str) -> bool:
    return uri.startswith("/") or re.match(r"s3://[^/]", uri) is not None
