"""Convert options of mpirun, torchrun and the like to values, such as variables and network interfaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from distrain.imports.credentials import is_credential
from distrain.imports.draft import Draft
from distrain.imports.launch.known_options import ACCELERATE, ALONE, DEEPSPEED, HOROVOD, MPI, SRUN, TORCH, names
from distrain.imports.launch.replaced_options import ELASTIC, PER_WORKER, SAME, SIZE, UNKNOWN_WHY, WHY, WORKERS
from distrain.imports.launch.starters import UNKNOWN, Option, started
from distrain.imports.secrets import quoting
from distrain.imports.slurm.header import SHORT, SHOWN
from distrain.imports.slurm.replaced import carry_exported

NCCL_LEVELS = ("VERSION", "WARN", "INFO", "TRACE")
ELASTIC_WORDS = (
    "horovodrun's elastic mode: here `helm distrain rescale` changes the size, and the ranks start again; set "
    "rescale.mode to live if the program saves its state on SIGTERM and goes on from there"
)
MCA_OF_LAUNCHER = {
    f"{part}_{name}" for part in ("plm_rsh", "plm_ssh") for name in ("agent", "args", "no_tree_spawn")
} | {"orte_default_hostfile", "prte_default_hostfile", "orte_keep_fqdn_hostnames"}
# For each option of horovodrun: the variable that Horovod reads, and the factor by which the option's value is
# multiplied. Source: horovod/runner/common/util/config_parser.py
HOROVOD_VARIABLES: dict[str, tuple[str, int]] = {
    "fusion-threshold-mb": ("HOROVOD_FUSION_THRESHOLD", 2**20),
    "cycle-time-ms": ("HOROVOD_CYCLE_TIME", 1),
    "cache-capacity": ("HOROVOD_CACHE_CAPACITY", 1),
    "timeline-filename": ("HOROVOD_TIMELINE", 1),
    "log-level": ("HOROVOD_LOG_LEVEL", 1),
}
# Options of pyxis whose values are names and paths, so that a message may show them.
IN_CONTAINER = {"container-mounts", "container-name", "container-workdir", "mpi"}
FLAGS, EXCLUDED = ("mpi", "flags"), ("network", "excludeInterfaces")
# The chart's own flags: without them, Open MPI binds each rank to one CPU of its worker. If the source sets other
# values of these flags, the source's values replace them.
USUAL = (("bind-to", "none"), ("map-by", "slot"))


class Launch(Struct, frozen=True):
    """How distrain starts the ranks of an imported command: `workers` workers with `slots` ranks each.

    `place` is the place of the command's options in the source. `is_open_mpi` is true if the flags are those of Open
    MPI.
    """

    place: str
    workers: int
    slots: int
    is_open_mpi: bool = True


def carry_options(draft: Draft, launch: Launch, options: Sequence[Option]) -> None:
    flags: list[Option] = []
    replaced: dict[str, list[Option]] = {}
    for option in options:
        starter, name = option.starter, option.name
        if name == UNKNOWN:
            replaced.setdefault(UNKNOWN_WHY, []).append(option)
        elif (expected := _expected(launch, option)) is not None:
            _compare(draft, launch, option, expected)
        elif name == "max-restarts" and starter in (TORCH, ACCELERATE) and _carry_restarts(draft, launch, option):
            pass
        elif name in WHY[starter]:
            if (name, option.value) not in SAME.get(starter, ()):
                replaced.setdefault(WHY[starter][name], []).append(option)
        elif not CARRIED[starter](draft, launch, option):
            flags.append(option)
    if any(option.starter == HOROVOD and option.name in ELASTIC for option in options):
        draft.note(ELASTIC_WORDS)
    _note_ranks(draft, launch, {option.starter for option in options})
    _carry_flags(draft, launch, flags)
    _left_to_image(draft, launch, options)
    for why, found in replaced.items():
        draft.drop(f"{launch.place}: {' '.join(map(_shown, found))}", why)


def _shown(option: Option) -> str:
    """Return an option as text for a message; leave out the value of an srun option if the value may be free text."""
    name = SHORT.get(option.name, option.name)
    if option.starter != SRUN or name in SHOWN | IN_CONTAINER or option.name in ("", UNKNOWN):
        return option.shown
    return f"{'-' * (1 + (len(option.name) > 1))}{quoting.key(option.name)}"


def _note_ranks(draft: Draft, launch: Launch, starters: set[str]) -> None:
    """If mpirun replaces torchrun or a similar program, note the variables that torchrun sets and mpirun does not."""
    is_torch = draft.value(("framework",)) == "pytorch" and not draft.has(("job", "kind"))
    if (found := sorted(starters & {TORCH, ACCELERATE, DEEPSPEED})) and not is_torch:
        draft.note(
            f"{launch.place}: {' and '.join(found)} set RANK, WORLD_SIZE and MASTER_ADDR; mpirun starts the ranks "
            "here, and sets OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE: read these, or set framework to pytorch and "
            "job.kind to PyTorchJob"
        )


def _expected(launch: Launch, option: Option) -> int | None:
    """Return the number that distrain uses in place of -np and other options of the job's size.

    Return None for an option that is not about the job's size.
    """
    ranks = launch.workers * launch.slots
    for table, number in ((SIZE, ranks), (PER_WORKER, launch.slots), (WORKERS, launch.workers)):
        if option.name in table.get(option.starter, ()):
            return number
    return None


def _carry_restarts(draft: Draft, launch: Launch, option: Option) -> bool:
    """Convert torchrun's number of restarts, unless the job itself sets a number of restarts."""
    target = ("job", "maxRestarts")
    policies = [(*place, "backoffLimit") for place in (("spec",), ("spec", "runPolicy"))]
    if draft.has(target) or any(draft.ledger.get(path) is not None for path in policies):
        return False
    if not option.value.isdecimal():
        return False
    draft.choose(target, int(option.value), f"{launch.place}: {option.shown}: within job.restartWindow, not in all")
    return True


def _left_to_image(draft: Draft, launch: Launch, options: Sequence[Option]) -> None:
    """If mpirun passed a variable to the ranks, but no pod of the source sets it, list the variable as left out."""
    sections = ((), *((section,) for section in ("launcher", "workers", "servers", "scheduler")))
    entries = [entry for section in sections for entry in draft.value((*section, "env"), [])]
    unset = sorted(exported(options) - {str(entry.get("name")) for entry in entries})
    if unset:
        shown = " ".join(f"-x {quoting.key(name)}" for name in unset)
        draft.drop(f"{launch.place}: {shown}", "no pod of the source sets it; the ranks have the value of the image")


def exported(options: Sequence[Option]) -> set[str]:
    """Return the names in mpirun's -x options: mpirun gives these variables of the launcher to the ranks."""
    return {
        option.value for option in options if (option.starter, option.name) == (MPI, "x") and "=" not in option.value
    }


def _compare(draft: Draft, launch: Launch, option: Option, expected: int) -> None:
    ranks = f"{launch.workers} workers x {launch.slots} = {launch.workers * launch.slots} ranks"
    starts = f"distrain starts {ranks}, one for each GPU, or one on CPUs"
    if not option.value.isdecimal():
        draft.drop(f"{launch.place}: {option.shown}", starts)
    elif int(option.value) != expected:
        draft.note(f"{launch.place} has {option.shown}; {starts}")


def _mpi(draft: Draft, launch: Launch, option: Option) -> bool:
    origin = f"{launch.place}: {option.shown}"
    if option.name in ("mca", "gmca", "omca", "prtemca", "pmixmca"):
        key, _, value = " ".join(option.values).partition(" ")
        _mca(draft, key, value, origin)
    elif option.name in ("x", "genv", "env"):
        name, _, value = "=".join(option.values).partition("=")
        if "=" in option.value or option.name != "x":
            _variable(draft, name, value, f"{launch.place}: -{option.name} {quoting.key(name)}")
    elif option.name == "iface":
        draft.choose(("network", "interface"), option.value, origin)
    else:
        return False
    return True


def _mca(draft: Draft, key: str, value: str, origin: str) -> None:
    if key in MCA_OF_LAUNCHER:
        draft.drop(origin, "distrain-launch sets it, for the SSH key, the remote shell and the hosts of this job")
    elif key.endswith("_tcp_if_exclude"):
        names = [*draft.value(EXCLUDED, []), *filter(None, value.split(","))]
        draft.choose(EXCLUDED, [*dict.fromkeys(names)], origin)
    elif key.endswith("_tcp_if_include"):
        _include(draft, value, origin)
    else:
        draft.choose(
            ("mpi", "mca", key), int(value) if value.isdecimal() and value == str(int(value)) else value, origin
        )


def _include(draft: Draft, value: str, origin: str) -> None:
    names = [name for name in value.split(",") if name]
    if all("/" in name for name in names):
        draft.choose(("network", "subnets"), names, origin)
    elif len(names) == 1:
        draft.choose(("network", "interface"), names[0], origin)
    else:
        draft.drop(origin, "network.interface takes one interface; name the network in network.subnets")


def _variable(draft: Draft, name: str, value: str, origin: str) -> None:
    if is_credential(name, value):
        key = draft.credentials.key(name, value)
        draft.append(("env",), [draft.credentials.variable(name, key)], origin)
    elif name == "NCCL_DEBUG" and value in NCCL_LEVELS:
        draft.choose(("network", "ncclDebug"), value, origin)
    elif re.search(r"[$`]", value):
        why = "its value follows from others, which no value of a pod can name: set it as a whole in mpi.env"
        draft.drop(f"{origin}={quoting.REST}", f"{why}, or in the program")
    else:
        draft.choose(("mpi", "env", name), value, origin)


def _carry_flags(draft: Draft, launch: Launch, found: Sequence[Option]) -> None:
    options = [option for option in found if option.starter == MPI and launch.is_open_mpi]
    for option in found:
        if option not in options:
            why = f"distrain does not start {option.starter}, and has no value for it"
            if option.starter == MPI:
                why = "the source's mpirun is another MPI's; if Open MPI has this option, put it into mpi.flags"
            draft.drop(f"{launch.place}: {_shown(option)}", why)
    names = {option.name for option in options}
    given = [(f"--{option.name}" if len(option.name) > 1 else f"-{option.name}", *option.values) for option in options]
    usual = [(f"--{name}", value) for name, value in USUAL if name not in names]
    if given:
        words = [word for flag in (*usual, *given) for word in flag]
        shown = ", ".join(option.shown for option in options)
        draft.choose(FLAGS, words, f"{launch.place}: {shown}{' and the usual ' * bool(usual)}{_joined(usual)}")
    for option in options:
        if option.name not in KNOWN_FLAGS:
            draft.note(
                f"{launch.place}: {quoting.options(option.shown)} is no option that the import knows; look "
                f"at mpi.flags and command"
            )


def _joined(flags: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(" ".join(flag) for flag in flags)


KNOWN_FLAGS = ALONE | names(
    """
        bind-to map-by rank-by wdir wd output-filename xterm report-uri timeout tune am stdin cpu-set
        cpu-list slot-list rankfile rf max-vm-size personality output path display display-topo runtime-options
        cpus-per-proc cpus-per-rank stream-buffering xml-file
        """
)


def _horovod(draft: Draft, launch: Launch, option: Option) -> bool:
    origin = f"{launch.place}: {option.shown}"
    if option.name in HOROVOD_VARIABLES:
        name, factor = HOROVOD_VARIABLES[option.name]
        value = str(int(option.value) * factor) if option.value.isdecimal() else option.value
        draft.choose(("mpi", "env", name), value, origin)
    elif option.name == "autotune":
        draft.choose(("mpi", "env", "HOROVOD_AUTOTUNE"), "1", origin)
    elif option.name in ("network-interface", "network-interfaces"):
        _include(draft, option.value, origin)
    elif option.name == "start-timeout" and option.value.isdecimal():
        draft.choose(("launcher", "workersTimeout"), int(option.value), origin)
    elif option.name == "mpi-args":
        words = ["mpirun", *option.value.split()]
        found = started(words)
        inner = Launch(launch.place, launch.workers, launch.slots)
        carry_options(draft, inner, found.options if found else ())
        if found and found.program < len(words):
            why = "no option of mpirun comes before it; look at mpi.flags"
            draft.drop(f"{origin}: {quoting.command(words[found.program :])}", why)
    else:
        draft.drop(origin, "distrain calls mpirun, which has no such option")
    return True


def _none(draft: Draft, launch: Launch, option: Option) -> bool:
    return False


def _srun(draft: Draft, launch: Launch, option: Option) -> bool:
    if option.name == "export":
        carry_exported(draft, option.value, f"{launch.place}: --export")
    # The batch script itself names the image.
    return option.name in ("container-image", "export")


def _accelerate(draft: Draft, launch: Launch, option: Option) -> bool:
    if option.name != "mixed-precision":
        return False
    entry: dict[str, Any] = {"name": "ACCELERATE_MIXED_PRECISION", "value": option.value}
    draft.append(("env",), [entry], f"{launch.place}: {option.shown}")
    return True


CARRIED: dict[str, Callable[[Draft, Launch, Option], bool]] = {
    MPI: _mpi,
    HOROVOD: _horovod,
    TORCH: _none,
    ACCELERATE: _accelerate,
    DEEPSPEED: _none,
    SRUN: _srun,
}
