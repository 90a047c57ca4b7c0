"""Check that a rank sees the GPUs that its pod requests: a job must not silently train on CPUs or in fp32."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from distrain_trainer.config import Config
from distrain_trainer.errors import DeviceError, rank_from_environment, task_from_environment
from distrain_trainer.log import Log

# In pods that request GPUs, the chart sets this variable to the value of workers.gpus.
ASKED = "DISTRAIN_GPUS"
# The lab's device plugin sets this variable in each container that requests a GPU. The GPUs of that device plugin are
# fakes.
PRETENDED = "DISTRAIN_PRETENDED_GPUS"
CUDA_ERROR_NAMES = {
    35: "the driver is older than the image's CUDA",
    100: "the driver sees no GPU",
    803: "the image's CUDA libraries and the node's driver do not fit together",
    804: "the GPU does not support this image's forward compatibility libraries",
    999: "the driver has failed; the node may need a restart",
}


def require_gpus(framework: str, *, visible: int, is_for_gpus: bool) -> None:
    """Raise DeviceError, with the likely cause, if the framework sees fewer GPUs than the pod requests.

    `is_for_gpus` is true if the framework was built for GPUs. Call this before the ranks connect. If a rank failed
    after it has connected, the other ranks would wait for it for ever.
    """
    asked = asked_for(os.environ)
    if visible >= asked:
        return
    if os.environ.get(PRETENDED):
        if speaks():
            print("workers.gpus: this node only pretends to have GPUs; training on the CPU", flush=True)
        return
    if not is_for_gpus:
        cause = (
            f"this image holds {framework} for CPUs; set image.repository and image.tag to one built with "
            "ACCELERATOR=cuda (docs/images.md)"
        )
    else:
        cause = cause_of(os.environ, Path("/"))
    raise DeviceError(
        f"workers.gpus: each worker asks for {asked} GPUs, but {framework} sees {visible or 'none'}: {cause}. "
        "To train on CPUs set workers.gpus=0"
    )


def asked_for(environment: Mapping[str, str]) -> int:
    """Return the number of GPUs that the pod requests.

    Raises DeviceError if the environment variable is not a number.
    """
    text = environment.get(ASKED, "").strip() or "0"
    if not re.fullmatch("[0-9]{1,9}", text):
        raise DeviceError(
            f"workers.gpus: {ASKED} is {text!r}, and not a number of GPUs; take it out of env: the chart sets it"
        )
    return int(text)


def require_gpu_of_rank(local_rank: int, *, local_ranks: int, visible: int) -> None:
    """Raise DeviceError if a worker has more ranks than GPUs, and this rank would have no GPU."""
    if local_rank >= visible:
        raise DeviceError(
            f"workers.gpus: this worker runs {local_ranks} ranks and sees {visible} GPUs; make them equal"
        )


def tell_precision(config: Config, log: Log, *, has_gpu: bool) -> None:
    """Log a line if no GPU is visible and the requested precision is therefore not used."""
    if config.precision != "fp32" and not has_gpu:
        log.print(f"trainer.precision: {config.precision} needs a GPU and none is visible; training in fp32")


def compiles(config: Config, log: Log, *, has_gpu: bool) -> bool:
    """Return whether to compile the model. Log a line if compilation is requested but no GPU is visible."""
    if config.compile and not has_gpu:
        log.print("trainer.extraArgs: --compile needs a GPU and none is visible; the model is not compiled")
    return config.compile and has_gpu


def speaks() -> bool:
    """Return whether this process has the lowest rank of all processes that train."""
    task, index = task_from_environment()
    return (index if task else rank_from_environment()) == 0


def cause_of(environment: Mapping[str, str], root: Path) -> str:
    """Return the likely reason why a framework that was built for GPUs sees too few of them, and the remedy."""
    given = environment.get("NVIDIA_VISIBLE_DEVICES")
    hidden = environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and (shown := count_shown(hidden)) < max(1, asked_for(environment)):
        return f"CUDA_VISIBLE_DEVICES={hidden!r} hides {f'all but {shown}' if shown else 'them'}; take it out of env"
    if not [*root.glob("dev/nvidia[0-9]*")] and not (root / "dev/kfd").exists():
        said = "is not set" if given is None else f"is {given!r}"
        return (
            f"no /dev/nvidia* is in the container, and NVIDIA_VISIBLE_DEVICES {said}: the node's container runtime did "
            "not pass them in; set workers.podSpec.runtimeClassName to NVIDIA's class (usually nvidia), or have an "
            "admin make that runtime the node's default"
        )
    if hidden is not None:
        return f"{driver_failure()}. Or CUDA_VISIBLE_DEVICES={hidden!r} names missing GPUs; take it out of env"
    return driver_failure()


def count_shown(hidden: str) -> int:
    """Count the distinct GPUs in CUDA_VISIBLE_DEVICES.

    CUDA ignores the first invalid entry and all entries after it.
    """
    devices = (device.strip() for device in hidden.split(","))
    return len({*takewhile(re.compile("[0-9]+|(GPU|MIG)-.+").fullmatch, devices)})


def driver_failure() -> str:
    """Initialize NVIDIA's driver (cuInit), and return its result as text."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return (
            "the driver's libcuda.so.1 is not in the container; install NVIDIA's driver on the node, or add compute to "
            "NVIDIA_DRIVER_CAPABILITIES"
        )
    code, version = driver.cuInit(0), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    told = f"NVIDIA's driver (CUDA {version.value // 1000}.{version.value % 1000 // 10})"
    if code == 0:
        return f"{told} works, so the container got fewer GPUs than requested, or the framework's CUDA is newer"
    return f"{told} fails with error {code} ({CUDA_ERROR_NAMES.get(code, 'see cuInit in the manual of CUDA')})"
