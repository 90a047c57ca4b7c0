"""Remove the programs that start ranks from a command: mpirun, horovodrun, torchrun, srun and the like.

Such programs are called starters here. The chart starts the ranks itself, so the rest of the command is the program.
This module returns the options of the programs that start ranks, and options.py converts the options to values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from distrain.imports.launch.known_options import (
    ACCELERATE,
    ALONE,
    DEEPSPEED,
    GLUED,
    HOROVOD,
    MPI,
    ONE,
    SRUN,
    TORCH,
    TWO,
)
from distrain.imports.secrets import quoting

PROGRAMS = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"), MPI),
    "horovodrun": HOROVOD,
    "torchrun": TORCH,
    "deepspeed": DEEPSPEED,
    "srun": SRUN,
}
MODULES = {
    **dict.fromkeys(("torch.distributed.run", "torch.distributed.launch"), TORCH),
    "accelerate.commands.launch": ACCELERATE,
    "deepspeed.launcher.runner": DEEPSPEED,
}
# Searches a whole text for the name of a program that starts ranks. Used, for example, for a script that is too complex
# to be split into commands.
MENTION = re.compile(
    r"(?<![\w./-])(?:\S*/)?(mpirun|mpiexec(?:\.hydra)?|orterun|prterun|horovodrun|torchrun|deepspeed|srun)(?=\s|$)"
    r"|accelerate\s+launch\b|-m\s+(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch|deepspeed\.launcher\.runner)\b"
)
PYTHON = re.compile(r"python[0-9.]*")
# A reference to a variable, as a shell or Kubernetes writes it. ${NAME[@]} stands for the items of an array.
REFERENCE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_]\w*)|\((?P<pod>[A-Za-z_]\w*)\)"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?:\[[@*]\])?(?::?[-+=?](?:[^{}]|\{[^{}]*\})*)?\})"
)
# A variable whose name contains one of these words usually holds options, and not the program.
OF_OPTIONS = re.compile(r"ARG|OPT|FLAG|PARAM", re.IGNORECASE)
# Stands for an option's name if a variable holds options and its value is not known.
UNKNOWN = "$"
USUAL_FOLDERS = {PurePosixPath(folder) for folder in (".", "/bin", "/usr/bin", "/usr/local/bin")}


class Option(Struct, frozen=True):
    """An option of a starter: its name without dashes, its values, and the index of its word in the command.

    `width` is the option's number of words. If the source wrote the name with underscores, `written` is that name. If
    the command calls the starter by its path, the path is the value of an Option whose name is empty.
    """

    starter: str
    name: str
    values: tuple[str, ...]
    index: int
    width: int = 1
    written: str = ""

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""

    @property
    def shown(self) -> str:
        """The option for messages. The value of an unknown option may be a credential."""
        dashed = f"{'-' * (1 + (len(self.name) > 1))}{self.name}"
        if not self.name:
            return quoting.key(self.value)
        is_known = self.name in ONE[self.starter] | TWO.get(self.starter, frozenset())
        values = map(quoting.value if is_known else lambda _: quoting.REST, self.values)
        return " ".join(filter(None, [quoting.key(self.written or dashed), *values]))


class Started(Struct, frozen=True):
    """A split command: the name and the index of the starter, its options, and the index of the program.

    A starter such as torchrun runs a Python file without an interpreter before it; `python` is the interpreter that the
    chart must add. If `is_open` is true, the word at `program` is a variable that may contain either options or the
    program.
    """

    starter: str
    index: int
    options: tuple[Option, ...]
    program: int
    python: tuple[str, ...] = ()
    is_open: bool = False


def started(words: Sequence[str]) -> Started | None:
    """Split a command that begins with a program that starts ranks, such as mpirun; return None for any other command.

    If there are several starters, as in `srun torchrun ...`, the options of all of them are returned.
    """
    found = started_by_one(words)
    inner = started(words[found.program :]) if found else None
    if not found or not inner:
        return found
    shifted = tuple(replace(option, index=option.index + found.program) for option in inner.options)
    names = f"{found.starter} and {inner.starter}"
    return Started(
        names, found.index, found.options + shifted, found.program + inner.program, inner.python, inner.is_open
    )


def started_by_one(words: Sequence[str]) -> Started | None:
    """Split a command that begins with a program that starts ranks, such as mpirun; return None for any other command.

    Only the first such program is split off: if the command begins with `srun torchrun`, torchrun is the program.
    """
    start = first_word(words)
    starter, behind, python = _starter(words, start)
    if not starter:
        return None
    options = [*_path(starter, words[start], start)]
    place = behind
    is_python = starter in (TORCH, ACCELERATE, DEEPSPEED)
    interpreter: tuple[str, ...] = (python,) if is_python else ()
    while place < len(words) and words[place] != "-":
        if words[place] == "--":
            place += 1
            break
        if _holds_options(starter, words, place):
            options.append(Option(starter, UNKNOWN, (), place, written=words[place]))
            place += 1
            continue
        if not words[place].startswith("-"):
            break
        option = _option(starter, words, place)
        place += option.width
        if is_python and option.name in ("m", "module", "no-python"):
            # These options are flags without a value, and other options may follow them.
            interpreter = () if option.name == "no-python" else (python, "-m")
        else:
            options.append(option)
    interpreter = interpreter if place < len(words) else ()
    return Started(starter, start, tuple(options), place, interpreter, _may_hold_options(starter, words, place))


def name_of(word: str) -> str:
    """Return the name of the variable if the word is only a variable, otherwise an empty text."""
    found = REFERENCE.fullmatch(word)
    return str(found["plain"] or found["braced"] or found["pod"]) if found else ""


def _holds_options(starter: str, words: Sequence[str], place: int) -> bool:
    """Tell whether the word at `place` is a variable that contains options of the starter.

    The variable's name, or the word after the variable, shows this.
    """
    if not name_of(words[place]) or place + 1 >= len(words):
        return bool(OF_OPTIONS.search(name_of(words[place])))
    following, more = words[place + 1], _starter(words, place + 1)[0]
    option = following.lstrip("-").partition("=")[0].replace("_", "-")
    if OF_OPTIONS.search(name_of(words[place])) or more:
        return True
    if following.startswith("-"):
        return option in ONE[starter] or option in ("m", "module", "no-python")
    if starter in (TORCH, ACCELERATE, DEEPSPEED):
        return following.endswith(".py")
    return bool(PYTHON.fullmatch(PurePosixPath(following).name)) or following in ("bash", "sh", "env", "numactl")


def _may_hold_options(starter: str, words: Sequence[str], place: int) -> bool:
    """Tell whether the word is a variable that may contain either options or the program."""
    if place + 1 >= len(words) or not name_of(words[place]):
        return False
    following = words[place + 1]
    is_argument = following.startswith("-") or OF_OPTIONS.search(name_of(following))
    return not is_argument and not (following.endswith(".py") and starter in (MPI, HOROVOD, SRUN))


def _path(starter: str, word: str, place: int) -> Iterator[Option]:
    """If the command calls the starter by a path such as /opt/ompi/bin/mpirun, yield an Option that holds this path.

    The Option's name is empty. Usual folders such as /usr/bin are ignored.
    """
    if PurePosixPath(word).parent not in USUAL_FOLDERS and not PYTHON.fullmatch(PurePosixPath(word).name):
        yield Option(starter, "", (word,), place, 0)


def first_word(words: Sequence[str]) -> int:
    """Return the index of the first word that is not env, time, exec, nohup, or an assignment such as NAME=VALUE."""
    place = 0
    while place < len(words):
        word = words[place]
        if PurePosixPath(word).name in ("env", "time", "exec", "nohup") or re.match(r"[A-Za-z_]\w*=", word):
            place += 1
        else:
            break
    return place


def _starter(words: Sequence[str], start: int) -> tuple[str, int, str]:
    """Return the starter's name, the index of its first option, and the Python interpreter that runs the program."""
    following = [PurePosixPath(word).name for word in words[start : start + 1]] + list(words[start + 1 : start + 4])
    if not following:
        return "", start, ""
    first = following[0]
    if first in PROGRAMS:
        return PROGRAMS[first], start + 1, "python3"
    if following[:2] == ["accelerate", "launch"]:
        return ACCELERATE, start + 2, "python3"
    flags = [word for word in following[1:] if word not in ("-u", "-O")]
    if PYTHON.fullmatch(first) and len(flags) > 1 and flags[0] == "-m" and flags[1] in MODULES:
        behind = start + 1 + following[1:].index(flags[1]) + 1
        return MODULES[flags[1]], behind, words[start]
    return "", start, ""


def _option(starter: str, words: Sequence[str], place: int) -> Option:
    word = words[place]
    name, has_value, value = word.lstrip("-").partition("=")
    plain = name if starter == MPI else name.replace("_", "-")
    written = word.partition("=")[0] if plain != name else ""
    if has_value and (starter != MPI or word.startswith("--")):
        return Option(starter, plain, (value,), place, written=written)
    if starter in GLUED and not word.startswith("--") and len(name) > 1:
        return Option(starter, name[0], (name[1:],), place)
    count = _count(starter, plain, words[place + 1 : place + 2], is_long=word.startswith("--"))
    values = tuple(words[place + 1 : place + 1 + count])
    return Option(starter, plain, values, place, 1 + len(values), written)


def _count(starter: str, name: str, following: Sequence[str], *, is_long: bool) -> int:
    if name in TWO.get(starter, ()):
        # -genv NAME VALUE, or -genv NAME=VALUE.
        return 1 if name in ("genv", "env") and any("=" in word for word in following) else 2
    if name in ONE[starter]:
        return 1
    if starter == SRUN and is_long:
        return 0
    return 0 if starter != MPI or not following else _guess(name, following[0])


def _guess(name: str, following: str) -> int:
    is_program = "/" in following or PYTHON.fullmatch(following) or re.search(r"\.(py|sh)$", following)
    is_word = following.startswith("-") or is_program or following in ("bash", "sh", "env", "numactl")
    return 0 if name in ALONE or is_word else 1
