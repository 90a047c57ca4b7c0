"""Read the options in the #SBATCH lines of a Slurm batch script. The options are those of sbatch(1) in Slurm 22.05."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain.errors import ValuesError
from distrain.imports.secrets import quoting

HEADER = re.compile(r"#SBATCH[ \t]+(.*?)(?:[ \t]#.*)?$")
SHORT = {
    "a": "array",
    "A": "account",
    "b": "begin",
    "B": "extra-node-info",
    "c": "cpus-per-task",
    "C": "constraint",
    "d": "dependency",
    "D": "chdir",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "m": "distribution",
    "M": "clusters",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "O": "overcommit",
    "p": "partition",
    "q": "qos",
    "Q": "quiet",
    "s": "oversubscribe",
    "S": "core-spec",
    "t": "time",
    "v": "verbose",
    "w": "nodelist",
    "W": "wait",
    "x": "exclude",
}
# For each alternative name of an option, its usual name.
SAME = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "share": "oversubscribe"}
# Options that take no value, or only a value after an equals sign.
ALONE = {
    *("contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "no-kill", "no-requeue", "overcommit"),
    *("oversubscribe", "parsable", "quiet", "requeue", "spread-job", "test-only", "use-min-nodes", "verbose", "wait"),
}
# The values of these options have a fixed form in Slurm, so a message may show them. The values of other options may be
# any text.
SHOWN = {
    *("account", "array", "begin", "clusters", "constraint", "contiguous", "core-spec", "cores-per-socket", "cpu-bind"),
    *("cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "dependency", "distribution", "exclude", "exclusive"),
    *("extra-node-info", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres"),
    *("hint", "hold", "kill-on-invalid-dep", "licenses", "mail-type", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu"),
    *("mincpus", "nice", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node"),
    *("ntasks-per-socket", "open-mode", "oversubscribe", "partition", "priority", "qos", "requeue", "no-requeue"),
    *("container-mounts", "container-workdir"),
    *("reservation", "signal", "sockets-per-node", "switches", "threads-per-core", "time", "time-min", "tmp", "wait"),
}
HETEROGENEOUS = {"hetjob", "packjob"}
# A word that is neither an option nor a value gets this name.
WORDS = "other-words"
# An option without a value gets this value. A word that is not an option gets an empty value.
SET = "true"


class Entry(Struct, frozen=True):
    """An option of a #SBATCH line: the number of the line, the option's long name, and its value."""

    line: int
    name: str
    value: str


def entries(script: str, origin: str) -> list[Entry]:
    """Return the options that sbatch reads, in their order; raise ValuesError for a quote that is not closed."""
    found = []
    for number, line in _lines(script, is_header=True):
        try:
            found += _entries(number, line)
        except ValueError as error:
            words = f"line {number}: #SBATCH {_first(line)}: has a quote that is not closed; close it"
            raise ValuesError(f"{origin}: {words}") from error
    return found


def ignored(script: str) -> Iterator[str]:
    """Yield the options that sbatch does not read because they come after the first command."""
    for number, line in _lines(script, is_header=False):
        try:
            options = " ".join(shown(entry.name, entry.value) for entry in _entries(number, line))
        except ValueError:
            options = _first(line)
        yield f"line {number}: #SBATCH {options}"


def _entries(number: int, line: str) -> list[Entry]:
    return [Entry(number, name, value) for name, value in _options(shlex.split(line))]


def _first(line: str) -> str:
    """Return the name of a line's first option, if the line cannot be split into words."""
    return quoting.options(line).split()[0]


def _lines(script: str, *, is_header: bool) -> Iterator[tuple[int, str]]:
    """Yield the line number and the options of each #SBATCH line before the script's first command.

    With `is_header=False`, yield those of each #SBATCH line after the first command.
    """
    is_before = True
    for number, line in enumerate(script.split("\n"), start=1):
        is_before = is_before and (not line.strip() or line.lstrip().startswith("#"))
        found = HEADER.match(line)
        if found and is_before == is_header:
            yield number, found[1]


def shown(name: str, value: str) -> str:
    """Return an option for a message, without its value if the value may be free text."""
    if not value:
        return name
    more = f"={quoting.value(value)}" if name in SHOWN and value != SET else ""
    return f"--{quoting.key(name)}{more}"


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(words):
        name, sign, value = words[place].partition("=")
        if not name.startswith("-"):
            yield words[place] if words[place] in HETEROGENEOUS else WORDS, ""
            place += 1
            continue
        if not name.startswith("--") and len(name) > 2:
            name, sign, value = name[:2], "=", words[place][2:]
        plain = SHORT.get(name.lstrip("-"), name.lstrip("-"))
        plain = SAME.get(plain, plain)
        if not sign and plain not in ALONE and place + 1 < len(words):
            place += 1
            value = words[place]
        yield plain, value or SET
        place += 1
