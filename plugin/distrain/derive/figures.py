"""Compute the figures that `derive` writes below the values: batch size, learning rate, network traffic, checkpoints.

The job's kind and size and the trainer's command line come from the rendered chart, so they match the real run. A
figure is left out if one of its inputs is not known, as with a user's own program.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from distrain import kube
from distrain.derive import formulas
from distrain.derive.models import describe
from distrain.errors import ValuesError
from distrain.workload.kinds import offers_servers
from distrain.workload.manifest import Job
from distrain.workload.wording import counted

TRAINER = "distrain_trainer"
# The trainer's argument --data for data that the trainer makes itself.
SYNTHETIC = "synthetic"
# These are assumptions for estimated times: the network bandwidth between common cloud nodes in bits/s, and the speed
# of a copy to host memory in bytes/s.
BANDWIDTH = 25e9
COPY_BYTES_PER_SECOND = 10e9
# The schema allows at most this number for the batch size, the steps and the epochs.
MOST = 2**31 - 1

Figure = tuple[str, str]


class Size(Struct, frozen=True):
    """A job's processes: workers, ranks per worker (`slots`), GPUs per worker, and parameter servers."""

    kind: str
    workers: int
    slots: int
    gpus: int
    servers: int

    @property
    def ranks(self) -> int:
        return formulas.world_size(self.workers, self.slots)


class Trainer(Struct, frozen=True):
    """The trainer's arguments, named as in the trainer's class Config.

    `kvstore` is MXNet's. `scaling` says how the learning rate grows with the batch size: linear, sqrt or none.
    `is_usual` means that the arguments set neither the image size nor the number of classes. Unless the data is
    synthetic, both may still differ from the model's default, because the trainer reads them from the data.
    """

    framework: str
    model: str
    batch_size: int
    steps: int | None
    epochs: int | None
    optimizer: str
    learning_rate: float
    warmup: int
    warmup_epochs: float
    scaling: str
    kvstore: str
    is_usual: bool
    is_synthetic: bool

    @property
    def parameters(self) -> int | None:
        """Return the trainable parameters for the model's default image shape and number of classes, if they apply."""
        return describe(self.model).parameters.get(self.framework) if self.is_usual else None


def size_of(job: Job, gpu_resource: str) -> Size:
    kind = job.resources[0].kind
    # Without a GPU resource, the GPUs come from resource claims, and the container's requests do not show their number.
    gpus = job.main.request.get(gpu_resource, 0) if gpu_resource else job.slots or 0
    servers = sum(role.replicas for role in job.others if role.name in ("server", "ps"))
    # An MXJob's worker is one process, but the trainer counts each of its GPUs as a rank.
    return Size(kind, job.main.replicas + job.ranks_beside, job.slots or max(gpus, 1), gpus, servers)


def trainer_of(job: Job) -> Trainer | None:
    """Read the trainer's arguments from the job's containers. Return None if the job runs a user's own program.

    Raises ValuesError if an argument must be a number above 0 but is not.
    """
    containers = (container for role in job.roles for container in role.spec.containers or ())
    words = next(filter(None, map(_trainer_words, containers)), None)
    if words is None:
        return None
    told = _options(words)
    try:
        found = Trainer(
            framework=told["framework"],
            model=told["model"],
            batch_size=int(told["batch-size"]),
            steps=int(told["steps"]) if "steps" in told else None,
            epochs=int(told["epochs"]) if "epochs" in told else None,
            optimizer=told["optimizer"],
            learning_rate=float(told["learning-rate"]),
            warmup=int(told["warmup"]),
            warmup_epochs=float(told.get("warmup-epochs", "0")),
            scaling=_scaling(told.get("rate-scaling", "auto"), told["optimizer"]),
            kvstore=told.get("kvstore", ""),
            is_usual=not {"image-size", "classes"} & set(told),
            is_synthetic=told.get("data") == SYNTHETIC,
        )
    except ValueError as error:
        raise ValuesError(f"trainer.extraArgs: {error}; give this argument a number") from error
    for name in ("batch-size", "steps", "epochs"):
        if name in told and not 0 < int(told[name]) <= MOST:
            raise ValuesError(
                f"trainer.extraArgs: --{name}={told[name][:20]} is not a number from 1 to {MOST}; correct it"
            )
    return found


def figures(size: Size, trainer: Trainer | None) -> list[Figure]:
    """For each figure whose inputs are known, return its label and its text."""
    lines = [("world size", _world(size))]
    if trainer:
        lines += [*_of_steps(size, trainer), *_of_gradients(size, trainer)]
    return lines


def _world(size: Size) -> str:
    workers = counted(size.workers, "worker")
    where = "" if size.gpus else ", on CPUs"
    return f"{size.ranks} = {workers} x {counted(size.slots, 'rank')}{where}"


def _of_steps(size: Size, trainer: Trainer) -> Iterator[Figure]:
    batch = formulas.global_batch(size.ranks, trainer.batch_size)
    yield "global batch", f"{batch} = {counted(size.ranks, 'rank')} x trainer.batchSize {trainer.batch_size}"
    own = _ranks_of_an_update(size, trainer) * trainer.batch_size
    rate = formulas.scaled_rate(trainer.learning_rate, own, trainer.scaling)
    share = f"{own} / {formulas.BASE_BATCH}"
    by = {"linear": f" x {share}", "sqrt": f" x sqrt({share})", "none": ""}[trainer.scaling]
    words = f"{rate:.4g} = trainer.learningRate {trainer.learning_rate:.4g}{by}"
    alone = ", as each worker's batch is a step of its own" if own != batch and by else ""
    yield "learning rate", words + alone + _rise(trainer)
    if data_set := describe(trainer.model).data_set:
        steps = formulas.steps_per_epoch(data_set.samples, batch)
        words = f"{steps} = {data_set.samples} / {batch} rounded up, if the data is {data_set.name}"
        all_ = f"; {trainer.epochs * steps} in {counted(trainer.epochs, 'epoch')}" if trainer.epochs else ""
        yield "steps per epoch", words + all_


def _scaling(given: str, optimizer: str) -> str:
    """Return how the trainer scales the learning rate with the batch size."""
    if given != "auto":
        return given
    return "linear" if optimizer in ("sgd", "lars") else "sqrt"


def _rise(trainer: Trainer) -> str:
    if trainer.warmup_epochs:
        return f", reached over the first {trainer.warmup_epochs:g} epochs"
    return f", reached over the first {counted(trainer.warmup, 'step')}" if trainer.warmup else ""


def _ranks_of_an_update(size: Size, trainer: Trainer) -> int:
    """Return how many ranks' gradients are combined into one update of the weights."""
    if size.kind == "TFJob":
        return 1
    return size.slots if trainer.kvstore == "dist_async" else size.ranks


def _of_gradients(size: Size, trainer: Trainer) -> Iterator[Figure]:
    if trainer.parameters is None:
        if size.ranks > 1:
            times = formulas.all_reduce_bytes(1, size.ranks)
            yield "all-reduce", f"a rank sends {times:.3g} times the bytes of the gradients each step, 2 (N-1) K / N"
        return
    size_of_all = formulas.gradient_bytes(trainer.parameters)
    model = describe(trainer.model)
    counted = f"{trainer.parameters / 1e6:.4g} million parameters"
    told = f" ({model.usual_data})" if trainer.is_synthetic else f", if the data has {model.usual_data}"
    yield "gradients", f"K = {_bytes(size_of_all)} = 4 bytes x {counted}{told}"
    if size.ranks > 1:
        yield from _traffic(size, size_of_all, has_servers=offers_servers(trainer.framework))
    if size.workers > 1:
        yield "communication", _communication(size, trainer, size_of_all)
    if size.gpus:
        yield "checkpoint", _checkpoint(size, trainer)


def _traffic(size: Size, gradients: int, *, has_servers: bool) -> Iterator[Figure]:
    would = ("would send", "sends") if size.servers else ("sends", "would send")
    sent = _bytes(formulas.all_reduce_bytes(gradients, size.ranks))
    yield "all-reduce", f"each of N = {size.ranks} ranks {would[0]} {sent} a step, 2 (N-1) K / N, and as much comes in"
    if not has_servers:
        return
    servers, workers = size.servers or 1, size.workers if size.servers else size.ranks
    sent = _bytes(formulas.server_bytes(gradients, workers, servers))
    who = "the one server" if servers == 1 else f"each of {servers} servers"
    yield "parameter server", f"{who} {would[1]} {sent} a step, {workers} K / {servers}, and as much comes in"


def _communication(size: Size, trainer: Trainer, gradients: int) -> str:
    if size.servers:
        seconds = formulas.server_seconds(gradients, size.workers, size.servers, BANDWIDTH)
    else:
        seconds = formulas.ring_seconds(gradients, size.ranks, BANDWIDTH)
    words = f"{_time(seconds)} a step at {BANDWIDTH / 1e9:g} Gbit/s between nodes"
    rate = describe(trainer.model).p100_images_per_second
    if not rate or not size.gpus:
        return words
    computation = trainer.batch_size / rate
    share = formulas.communication_share(seconds, computation)
    return f"{words}, {share:.0%} of one that computes for {_time(computation)} (a P100 in fp32) if nothing overlaps"


def _checkpoint(size: Size, trainer: Trainer) -> str:
    assert trainer.parameters is not None
    written = formulas.checkpoint_bytes(trainer.parameters, trainer.optimizer)
    stall = written / COPY_BYTES_PER_SECOND
    days = formulas.GPU_DAYS_BETWEEN_FAILURES
    mtbf = 86400 * formulas.job_mtbf(days, size.workers * size.gpus)
    best = formulas.checkpoint_interval(stall, mtbf)
    if best > formulas.LONGEST_BETWEEN_CHECKPOINTS:
        return f"one every {_time(formulas.LONGEST_BETWEEN_CHECKPOINTS)}, the longest that checkpoint.every: auto takes"
    return (
        f"one every {_time(best)} loses least (Young/Daly): the copy of {_bytes(written)} takes {_time(stall)}, "
        f"a GPU fails every {days:.0f} days"
    )


def _trainer_words(container: kube.Container) -> list[str] | None:
    words = [*(container.command or ()), *(container.args or ())]
    return words[words.index(TRAINER) + 1 :] if TRAINER in words else None


def _options(words: list[str]) -> dict[str, str]:
    """Parse options that are written as --name=value or as --name value.

    If an option is given several times, the last value is used.
    """
    found = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, is_joined, value = word[2:].partition("=")
            found[name] = value if is_joined else following
    return found


def _bytes(number: float) -> str:
    unit, size = next((each for each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if number >= each[1]), ("bytes", 1))
    return f"{number / size:.3g} {unit}"


def _time(seconds: float) -> str:
    unit, size = next((each for each in (("h", 3600), ("min", 60), ("s", 1)) if seconds >= each[1]), ("ms", 1e-3))
    return f"{seconds / size:.3g} {unit}"
