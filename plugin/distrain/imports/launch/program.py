"""Find the program of the ranks in a container's command.

The program that starts the ranks, such as mpirun, is left out, because the chart starts the ranks itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from distrain.imports.launch import shell
from distrain.imports.launch.known_options import MPI
from distrain.imports.launch.known_values import resolved_words, with_values
from distrain.imports.launch.shell import Command
from distrain.imports.launch.starters import MENTION, Option, Started, started
from distrain.imports.secrets import quoting
from distrain.values.placeholder import PROGRAM

# Commands of a shell that prepare the program. Each rank needs them, so they stay in the command.
SETUP = {"cd", "export", "source", ".", "ulimit", "set", "umask", "unset", "conda", "module", "pushd", "eval", "alias"}
SETUP |= {"declare", "typeset", "readonly"}
# With this option of srun, the argument is not a program, but a file that lists several programs.
MULTIPLE = "multi-prog"
# Commands that only print.
SILENT = {"echo", "date", "hostname", "pwd", "ls", "nvidia-smi", "env", "printenv", "whoami", "true", ":", "which"}


# A redirection that writes a file, as in `echo $KEY > ~/.key`. 2>&1 writes no file, and the names in NO_FILE are not
# files.
FILE = re.compile(r"(?:\d|&)?>{1,2}\|?(?!&)(.*)", re.DOTALL)
NO_FILE = {"/dev/null", "/dev/stderr", "/dev/stdout"}


def only_prints(command: Command) -> bool:
    """Tell whether a command only prints: it writes no file."""
    words = [word.text for word in command.words]
    if not words or words[0] not in SILENT:
        return False
    found = [(FILE.fullmatch(word), following) for word, following in zip(words, [*words[1:], ""], strict=True)]
    return {match[1] or following for match, following in found if match} <= NO_FILE


class Program(Struct, frozen=True):
    """The parts of a container's command: the ranks' program, and the starter (mpirun and the like) with its options.

    `left` lists the other parts of the command, which are left out, each with the reason. If the program was not found,
    `words` begins with a placeholder, and `helm distrain check` refuses the placeholder.
    """

    words: tuple[str, ...]
    starter: str = ""
    options: tuple[Option, ...] = ()
    left: tuple[tuple[str, str], ...] = ()

    @property
    def is_open(self) -> bool:
        return self.words[:1] == (PROGRAM,)


def program_of(words: Sequence[str], given: Mapping[str, str] | None = None) -> Program:
    """Split the command of a container, which may be a shell with a script, into its parts.

    `given` is a map from names to values, for the variables that the command may use.
    """
    script = shell.script_of(words)
    if script is not None:
        return _of_script((*words[:script], with_values(words[script], given), *words[script + 1 :]), script)
    words = resolved_words(words, given or {})
    found = started(words)
    if found is None:
        return Program(tuple(words))
    if unclear := _several(found, words) or _open(found, words):
        return unclear
    program = (*words[: found.index], *found.python, *words[found.program :])
    if found.program >= len(words):
        return Program((PROGRAM,), found.starter, found.options, (_no_program(found),))
    inner = program_of(words[found.program :])
    if inner.starter:
        names = f"{found.starter} and {inner.starter}"
        return Program(inner.words, names, (*found.options, *inner.options), inner.left)
    if PROGRAM in inner.words:
        return Program(inner.words, found.starter, found.options, inner.left)
    return Program(_plain(program), found.starter, found.options)


def _several(found: Started, words: Sequence[str]) -> Program | None:
    """If mpirun or srun starts several programs, return the placeholder instead of a program.

    An example is `mpirun -np 2 a : -np 2 b`.
    """
    if any(option.name == MULTIPLE for option in found.options):
        why = "srun starts the programs that this file lists; distrain runs one: write it as command"
        return Program((PROGRAM,), found.starter, (), ((quoting.command(words[found.index :]), why),))
    if MPI not in found.starter or ":" not in words[found.program :]:
        return None
    why = "mpirun starts several programs; distrain runs one: write it as command"
    return Program((PROGRAM,), found.starter, found.options, ((quoting.command(words[found.program :]), why),))


def _open(found: Started, words: Sequence[str]) -> Program | None:
    """If a variable may contain either mpirun's options or the program, return the placeholder instead of a program."""
    if not found.is_open:
        return None
    name = quoting.key(words[found.program])
    why = f"{name} holds options of {found.starter} or the program; write the program of the ranks as command"
    return Program((PROGRAM,), found.starter, found.options, ((quoting.command(words[found.index :]), why),))


def _no_program(found: Started) -> tuple[str, str]:
    return found.starter, "no program follows it; write it in the place of the first word of command"


def _plain(program: tuple[str, ...]) -> tuple[str, ...]:
    """Remove exec, time and nohup from the beginning of a command, and python3 before a .sh or .bin file."""
    while len(program) > 1 and program[0] in ("exec", "time", "nohup"):
        program = program[1:]
    if program[:1] == ("python3",) and len(program) > 1 and PurePosixPath(program[1]).suffix in (".sh", ".bin"):
        return program[1:]
    return program


def _of_script(words: Sequence[str], index: int) -> Program:
    script = words[index]
    if not MENTION.search(script):
        return Program(tuple(words))
    commands = shell.commands(script) or []
    taken = [started([word.text for word in command.words]) for command in commands]
    places = [place for place, found in enumerate(taken) if found]
    if len(places) != 1 or _is_mentioned_elsewhere(script, taken) or not _is_plain(commands, places[0]):
        why = "it starts ranks between other commands; write the program that each rank has to run as command"
        return Program((PROGRAM,), left=((f"the script {quoting.command(words[:1])} -c", why),))
    found = taken[places[0]]
    assert found
    line = [word.text for word in commands[places[0]].words]
    if unclear := _several(found, line) or _open(found, line):
        return unclear
    if found.program >= len(commands[places[0]].words):
        return Program((PROGRAM,), found.starter, found.options, (_no_program(found),))
    setup, left = _split(commands[: places[0]], script)
    left += _behind(commands, places[0], script)
    program = _body(commands[places[0]], found, script)
    # Use `exec`, so that the program replaces the shell and receives SIGTERM. Otherwise only the shell would receive
    # SIGTERM.
    is_exec = setup and not re.match(r"\w+=|exec\s", program)
    body = f"{setup}{'exec ' if is_exec else ''}{program}"
    simple = shell.commands(body)
    if simple and len(simple) == 1 and not shell.SPECIAL.search(body) and "=" not in simple[0].words[0].text:
        return Program(_plain(tuple(word.text for word in simple[0].words)), found.starter, found.options, tuple(left))
    command = (*words[:index], body, *words[index + 1 :])
    return Program(command, found.starter, found.options, tuple(left))


def _is_mentioned_elsewhere(script: str, taken: Sequence[Started | None]) -> bool:
    """Tell whether a script names mpirun, torchrun or the like in other places than at the beginning of commands."""
    begun = sum(found.starter.count(" and ") + 1 for found in taken if found)
    return len(MENTION.findall(script)) > begun


def _is_plain(commands: Sequence[Command], place: int) -> bool:
    """Tell whether the commands before the start of the ranks run one after another (`&&`, `;` or a new line)."""
    before = all(command.operator in ("&&", ";", "\n") for command in commands[:place])
    return before and commands[place].operator in ("&&", ";", "\n", "|", "")


def _split(before: Sequence[Command], script: str) -> tuple[str, list[tuple[str, str]]]:
    """Divide the commands before the start of the ranks into the commands that each rank needs, and the others.

    Return the text of the needed commands, and a list of the others, each with the reason why it is left out.
    """
    setup, left = "", []
    for command in before:
        words, name = script[command.start : command.end].strip(), command.words[0].text
        if name in SETUP or "=" in name:
            setup += f"{words} && "
        elif not only_prints(command):
            why = "it ran once, before the ranks; do it in the image, or in an initContainer of the workers"
            left.append((_shown(command), why))
    return setup, left


def _shown(command: Command) -> str:
    return quoting.command([word.text for word in command.words])


def _behind(commands: Sequence[Command], place: int, script: str) -> list[tuple[str, str]]:
    left = []
    for before, command in zip(commands[place:], commands[place + 1 :], strict=False):
        pipe = "`helm distrain logs --save DIR` keeps the log" if before.operator == "|" else ""
        if command.words and not only_prints(command):
            left.append(
                (_shown(command), pipe or "it ran once, after the ranks; do it at the end of the program, on rank 0")
            )
    return left


def _body(command: Command, found: Started, script: str) -> str:
    """Return the program's text, as the script has it."""
    words = command.words
    # Remove `time`. Here it is a keyword of the shell. After `exec`, the shell would look for a program with the name
    # `time`, and the image may not have this program.
    before = [word for word in words[: found.index] if word.text != "time"]
    prefix = "".join(f"{script[word.start : word.end]} " for word in before)
    python = "".join(f"{word} " for word in found.python)
    if PurePosixPath(words[found.program].text).suffix == ".sh" and python == "python3 ":
        python = ""
    return f"{prefix}{python}{script[words[found.program].start : command.end].strip()}"
