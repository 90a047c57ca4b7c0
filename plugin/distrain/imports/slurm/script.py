"""Find the program of the ranks in the lines of a Slurm batch script, and the other parts that the ranks need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from distrain.imports.draft import Draft
from distrain.imports.launch import shell
from distrain.imports.launch.carried import carry_words
from distrain.imports.launch.known_values import SETTERS, assignments
from distrain.imports.launch.program import SILENT, only_prints
from distrain.imports.launch.shell import Command
from distrain.imports.launch.starters import MENTION, started
from distrain.imports.launch.wrappers import CONTAINERS, Wrapper, chain
from distrain.imports.secrets import quoting
from distrain.imports.slurm.container import carry_variable, carry_wrapper
from distrain.values.placeholder import PROGRAM

# Commands that load software of a Slurm site. On Kubernetes, the image has to contain this software.
SITE = {"module", "ml", "conda", "mamba", "source", ".", "spack", "eval"}
# Variables that scripts set so that the ranks find each other.
RENDEZVOUS = re.compile(r"^(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|NODE_RANK|head_node\w*|nodes\w*)$", re.IGNORECASE)
# Programs of Slurm, which images do not contain.
OF_SLURM = re.compile(r"\b(scontrol|sinfo|squeue|sacct|sstat)\b")
REFERENCE = re.compile(r"\$\{?[#!]?(\w+)")
WRITE = f"write the program that each rank has to run in the place of {PROGRAM}"
# Matches all characters that can be replaced by spaces without changing the line number of a word. A backslash at the
# end of a line does not match, nor does its line break.
BLANKED = re.compile(r"(?!\\\n)(?<!\\(?=\n)).", re.DOTALL)
# Matches a script's first line if it names a shell whose syntax the import can read.
SHELL = re.compile(r"#!\s*\S*?(?:/env\s+(?:-\S+\s+)*)?\b(?:ba|da|a|k|z)?sh\b")
# Commands that have no effect and print nothing.
EMPTY = {"true", ":"}
ONCE = "it ran once; do it in the image, in an initContainer of the workers, or in the program"


def carry_script(draft: Draft, script: str) -> None:
    """Set the command from the one line that starts the ranks, and env from the variables before it."""
    commands = shell.commands(script)
    if not SHELL.match(script):
        _no_shell(draft, script)
        return
    if commands is None:
        _beyond(draft, script)
        return
    starts = [command for command in commands if _starts_ranks(command)]
    # If no command starts ranks, the last command that is not a preparation is the program.
    last = next((each for each in reversed(commands) if not _is_setup(each)), None)
    main = starts[0] if len(starts) == 1 else None if starts else last
    if main and not (why := _no_program(main)):
        _carry_program(draft, commands.index(main), script)
        return
    if main:
        starts = [main]
        _unknown(draft, main, script, why)
    elif starts:
        _several(draft, starts, script)
    else:
        draft.choose(("command",), [PROGRAM], "the script starts no program")
        draft.drop("script", f"no command of it is a program; {WRITE}")
        draft.note(f"command: {WRITE}")
    _carry_others(draft, [each for each in commands if each not in starts], script)


def _carry_program(draft: Draft, place: int, script: str) -> None:
    """Set the chart's `command` from the shell command at this index of the script.

    The script's other commands are converted to env, or reported as not imported.
    """
    script, wrappers = _unwrapped((shell.commands(script) or [])[place], script)
    commands = shell.commands(script) or []
    main = commands[place]
    needed = _needed(main, commands, script)
    kept = [command for command in needed if not _is_literal(command, script)]
    if any(MENTION.search(_text(command, script)) for command in needed):
        _unknown(draft, main, script, "its variables hold the program and what starts its ranks")
        _carry_others(draft, [each for each in commands if each is not main], script)
        return
    _carry_others(draft, [each for each in commands if each is not main and each not in kept], script)
    for wrapper, text in wrappers:
        carry_wrapper(draft, wrapper, text, _line(main, script))
    setup = "".join(f"{_text(command, script)} && " for command in kept)
    carry_words(draft, _words(main, script, setup), _line(main, script))


def _carry_others(draft: Draft, commands: Sequence[Command], script: str) -> None:
    for command in commands:
        _other(draft, command, _place(command, script))
    _printed(draft, commands, script)


def _no_program(main: Command) -> str:
    """Return why no program is found in a command.

    For example, the command runs the program that a container image contains.
    """
    words = [word.text for word in main.words]
    before = chain(words)
    name = PurePosixPath(words[before.program]).name if before.program < len(words) else ""
    if name in CONTAINERS or (not name and any(each.is_container for each in before.wrappers)):
        return "it runs the program of a container's image; name that image in image.repository"
    if not before.has_starter and name not in (*shell.SHELLS, "python", "python3"):
        # The word after an option may be the option's value, so it does not count as a program.
        behind = zip(words[before.program :], words[before.program + 1 :], strict=False)
        if inner := next((word for old, word in behind if MENTION.fullmatch(word) and not old.startswith("-")), ""):
            return f"{name} starts {inner}, and distrain starts the ranks itself"
    return "" if name or not before.wrappers else "no program follows"


def _unwrapped(main: Command, script: str) -> tuple[str, list[tuple[Wrapper, str]]]:
    """Return the script without the wrappers around the main program, and the wrappers with their texts."""
    found = []
    for wrapper in chain([word.text for word in main.words]).wrappers:
        start, end = main.words[wrapper.start].start, main.words[wrapper.stop - 1].end
        words = [word.text for word in main.words[wrapper.start : wrapper.stop]]
        found.append((wrapper, " ".join(map(quoting.value, words))))
        script = script[:start] + BLANKED.sub(" ", script[start:end]) + script[end:]
    return script, found


def _printed(draft: Draft, commands: Sequence[Command], script: str) -> None:
    """If commands only print text, report them as not imported, and show only the names of their programs."""
    found = [
        (_line(each, script), each.words[0].text)
        for each in commands
        if only_prints(each) and each.words[0].text not in EMPTY
    ]
    if found:
        lines = ", ".join(line.removeprefix("line ") for line, _ in found)
        names = ", ".join(dict.fromkeys(name for _, name in found))
        why = "they only print, and ran once; print it in the program, or in an initContainer of the workers"
        draft.drop(f"{'lines' if len(found) > 1 else 'line'} {lines}: {names}", why)


def _no_shell(draft: Draft, script: str) -> None:
    """Set a placeholder as command, because the import reads only scripts of sh and bash.

    This script is in another language, such as Python. sbatch runs it with the interpreter in the script's first line.
    """
    name = quoting.value(script.split("\n")[0].removeprefix("#!").strip())
    draft.choose(("command",), [PROGRAM], f"the script is one of {name}")
    draft.drop("script", f"it is one of {name}, and the import reads sh and bash; put it into the image; {WRITE}")
    draft.note(f"command: {WRITE}")


def _beyond(draft: Draft, script: str) -> None:
    """For a script that the import cannot split, set a placeholder as command, and name the line and the reason."""
    number, name = shell.obstacle(script)
    line = quoting.line(script.split("\n")[number - 1])
    draft.choose(("command",), [PROGRAM], f"line {number} has {name}")
    why = f"{name} is more than a simple command, so the import carries no line of the script over"
    draft.drop(
        f"script, line {number}: {line}", f"{why}; write the program of the ranks as command, its variables in env"
    )
    draft.note(f"command: {WRITE}")


def _starts_ranks(command: Command) -> bool:
    """Tell whether a command starts the program of the ranks. `srun hostname` does not: it only prints."""
    words = [word.text for word in command.words]
    before = chain(words)
    return before.has_starter and words[before.program : before.program + 1] not in [[name] for name in SILENT]


def _several(draft: Draft, starts: Sequence[Command], script: str) -> None:
    draft.choose(("command",), [PROGRAM], f"the script starts {len(starts)} programs")
    draft.note(
        f"command: the script starts {len(starts)} programs; write the one that trains in the place of {PROGRAM}"
    )
    for command in starts:
        draft.drop(_place(command, script), "a run starts one program; write it as command")


def _unknown(draft: Draft, main: Command, script: str, why: str) -> None:
    """Set a placeholder as command, because the program in the script's main command cannot be identified."""
    draft.choose(("command",), [PROGRAM], f"{_line(main, script)}: {why}")
    draft.drop(_place(main, script), f"{why}; write the program as command")
    draft.note(f"command: {WRITE}")


def _needed(main: Command, commands: Sequence[Command], script: str) -> list[Command]:
    """Return the commands on which the program depends: cd, and commands that set variables which the program uses."""
    names = set(REFERENCE.findall(_without_starter(main, script)))
    found: list[Command] = []
    for command in reversed(commands[: commands.index(main)]):
        text = _text(command, script)
        assigned = {word.partition("=")[0].rstrip("+") for word in assignments(command)}
        is_ours = OF_SLURM.search(text) or all(map(RENDEZVOUS.match, assigned))
        if command.words[0].text == "cd" or (assigned & names and not is_ours):
            found.insert(0, command)
            names |= set(REFERENCE.findall(text))
    return found


def _without_starter(main: Command, script: str) -> str:
    """Return the text of a command without the program that starts the ranks and its options."""
    found = started([word.text for word in main.words])
    if found is None:
        return _text(main, script)
    before = script[main.start : main.words[found.index].start]
    behind = main.words[found.program].start if found.program < len(main.words) else main.end
    return before + script[behind : main.end]


def _is_literal(command: Command, script: str) -> bool:
    """Tell whether a command sets variables to literal texts, which can be set in env instead."""
    return bool(assignments(command)) and not re.search(r"[$`]", _text(command, script))


def _text(command: Command, script: str) -> str:
    return script[command.start : command.end].strip()


def _line(command: Command, script: str) -> str:
    return f"line {script[: command.words[0].start].count(chr(10)) + 1}"


def _place(command: Command, script: str) -> str:
    return f"{_line(command, script)}: {quoting.command([word.text for word in command.words])}"


def _is_setup(command: Command) -> bool:
    """Tell whether a command only prepares the program, or only prints."""
    words = [word.text for word in command.words]
    before = chain(words)
    if before.program >= len(words):
        return not any(each.is_container for each in before.wrappers)
    return words[before.program] in SITE | SILENT | SETTERS | {"cd", "set", "ulimit", "wait"}


def _words(command: Command, script: str, setup: str) -> list[str]:
    """Return the words of the command; if the command needs a shell, return `bash -c` and the command's text."""
    line = _text(command, script)
    words = [word.text for word in command.words]
    start = chain(words).program
    inner = shell.script_of(words[start:])
    # If the program is itself `bash -c SCRIPT`, the preparing commands go to the beginning of SCRIPT. A redirection
    # after SCRIPT is outside of this shell, so it needs a second shell around the program.
    if inner is not None and not any(re.match(r"[0-9&]*[<>]", word) for word in words[start + inner + 1 :]):
        words[start + inner] = setup + words[start + inner]
        return words
    if setup or shell.SPECIAL.search(line) or "=" in command.words[0].text:
        return ["bash", "-c", setup + line]
    return words


def _other(draft: Draft, command: Command, place: str) -> None:
    """Set the variable in env if the command sets a variable; report any other command as not imported."""
    if words := assignments(command):
        for word in words:
            _variable(draft, word, place)
    elif command.words[0].text in SITE:
        draft.drop(place, "the image has to hold what it brings")
    elif started([word.text for word in command.words]) or not (
        only_prints(command) or command.words[0].text in ("set", "wait")
    ):
        draft.drop(place, ONCE)


def _variable(draft: Draft, word: str, place: str) -> None:
    name = word.partition("=")[0]
    if RENDEZVOUS.match(name) and draft.value(("framework",)) == "pytorch" and not draft.has(("job", "kind")):
        draft.drop(place, "distrain sets how the ranks find each other")
    elif RENDEZVOUS.match(name):
        draft.drop(
            place, "under mpirun a rank has OMPI_COMM_WORLD_RANK and _SIZE, and nothing sets this; set it in env"
        )
    else:
        carry_variable(draft, word, place)
