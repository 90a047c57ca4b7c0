"""Find programs that run another program, such as numactl and timeout, or run it in a container."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from distrain.imports.launch.known_options import names
from distrain.imports.launch.starters import started_by_one

OF_NUMACTL = "N cpunodebind C physcpubind m membind i interleave p preferred w weighted-interleave"
BIND = "distrain binds no rank; write it before the program in command if the image has it, or set mpi.flags"
CONDA = "the image has to hold its environment"
LATE = "set PYTHONUNBUFFERED to 1 in env if lines come late"


class Kind(Struct, frozen=True):
    """A wrapper: a program, such as numactl or timeout, that runs the program after its own options and arguments.

    `options` lists the options with a value, and `arguments` is the number of arguments. `why` tells the user how to
    replace the wrapper's effect; it is empty if the wrapper can be removed without a loss. If `commands` is not empty,
    one of these subcommands must follow the wrapper's name.
    """

    options: frozenset[str] = frozenset()
    arguments: int = 0
    why: str = ""
    commands: tuple[str, ...] = ()


# The options come from each program's own --help: coreutils 9, util-linux 2.38, numactl 2.0.
PLAIN = {
    "time": Kind(names("f format o output")),
    "exec": Kind(names("a")),
    "nohup": Kind(),
    "setsid": Kind(),
    "sudo": Kind(names("u user g group C close-from D chdir h host p prompt r role t type U other-user")),
    **dict.fromkeys(("conda", "mamba", "micromamba"), Kind(names("n name p prefix cwd"), 0, CONDA, ("run",))),
    "numactl": Kind(names(OF_NUMACTL), 0, BIND),
    "taskset": Kind(arguments=1, why=BIND),
    "chrt": Kind(arguments=1, why=BIND),
    "nice": Kind(names("n adjustment"), 0, "ask for CPUs in workers.cpu"),
    "ionice": Kind(names("c class n classdata"), 0, "a pod has no such priority"),
    "stdbuf": Kind(names("i input o output e error"), 0, LATE),
    "unbuffer": Kind(why=LATE),
    "timeout": Kind(names("s signal k kill-after"), 1, "set job.activeDeadlineSeconds"),
}
# These options come from `apptainer exec --help` of 1.3 and also apply to Singularity 3. The options of the other
# programs were not compared with a source.
SINGULARITY = names(
    """
    add-caps app apply-cgroups B bind blkio-weight blkio-weight-device cdi-dirs cpu-shares cpus cpuset-cpus cpuset-mems
    cwd data device dns docker-host drop-caps env env-file fusemount home H hostname memory memory-reservation
    memory-swap mount network network-args no-mount o overlay pem-path pids-limit pwd S scratch security W workdir
    """
)
DOCKER = names(
    """
    v volume e env env-file name w workdir gpus ipc shm-size u user network net ulimit mount p publish entrypoint h
    hostname m memory cpus cpuset-cpus device l label runtime security-opt cap-add cap-drop pull platform log-driver
    add-host tmpfs restart pid volumes-from group-add
    """
)
CONTAINERS = {
    **dict.fromkeys(("singularity", "apptainer"), Kind(SINGULARITY, 1, commands=("exec",))),
    **dict.fromkeys(("docker", "podman", "podman-hpc", "nerdctl"), Kind(DOCKER, 1, commands=("run",))),
    "enroot": Kind(names("c conf rc e env m mount"), 1, commands=("start",)),
    "shifter": Kind(names("i image V volume m module e env env-file w workdir E entrypoint")),
    "ch-run": Kind(names("b bind c cd set-env unset-env g gid u uid m mount"), 1),
}


class Wrapper(Struct, frozen=True):
    """A wrapper in a command: its name, its options and its arguments.

    `start` is the index of its first word, and `stop` the index of the first word after it.
    """

    name: str
    start: int
    stop: int
    options: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def is_container(self) -> bool:
        return self.name in CONTAINERS


class Chain(Struct, frozen=True):
    """The words before the program in a command: wrappers, and perhaps a program that starts ranks.

    `program` is the index of the program.
    """

    wrappers: tuple[Wrapper, ...]
    has_starter: bool
    program: int


def chain(words: Sequence[str]) -> Chain:
    """Remove the wrappers, and the programs that start ranks, from the beginning of a command."""
    found: list[Wrapper] = []
    place, has_starter = 0, False
    while place < len(words):
        if re.match(r"[A-Za-z_]\w*=", words[place]):
            place += 1
        elif wrapper := _wrapper(words, place):
            found.append(wrapper)
            place = wrapper.stop
        elif words[place] == "env":
            # Options of env, and values that the shell computes, stay in the command.
            place += 1
        elif one := started_by_one(words[place:]):
            has_starter = True
            place += one.program
        else:
            break
    return Chain(tuple(found), has_starter, place)


def _wrapper(words: Sequence[str], start: int) -> Wrapper | None:
    name = PurePosixPath(words[start]).name
    kind = PLAIN.get(name) or CONTAINERS.get(name)
    place = start + 1
    if name == "env":
        return _env(words, start)
    if kind is None:
        return None
    if kind.commands:
        while place < len(words) and words[place].startswith("-"):
            place += 1
        if words[place : place + 1] not in [[command] for command in kind.commands]:
            return None
        place += 1
    options: list[tuple[str, str]] = []
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        option, width = _option(kind, words, place)
        options.append(option)
        place += width
    place += words[place : place + 1] == ["--"]
    arguments = tuple(words[place : place + kind.arguments])
    place += len(arguments)
    place += words[place : place + 1] == ["--"]
    return Wrapper(name, start, place, tuple(options), arguments)


def _env(words: Sequence[str], start: int) -> Wrapper | None:
    """Return an `env` wrapper that only sets variables to literal values."""
    stop = start + 1
    while stop < len(words) and re.match(r"[A-Za-z_]\w*=[^$`]*$", words[stop]):
        stop += 1
    is_whole = stop < len(words) and not re.match(r"-|[A-Za-z_]\w*=", words[stop])
    return Wrapper("env", start, stop, (), tuple(words[start + 1 : stop])) if is_whole and stop > start + 1 else None


def _option(kind: Kind, words: Sequence[str], place: int) -> tuple[tuple[str, str], int]:
    """Return an option's name and value, and its number of words."""
    name, sign, value = words[place].lstrip("-").partition("=")
    is_long = words[place].startswith("--")
    if not is_long and len(name) > 1 and name[0] in kind.options:
        return (name[0], words[place][2:]), 1
    if sign or name not in kind.options or place + 1 >= len(words):
        return (name, value), 1
    return (name, words[place + 1]), 2
