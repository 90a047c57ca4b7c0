"""In the options of a program that starts ranks, replace variables by the values that the source gives them.

If the source has ARGS="--nnodes 2", `srun torchrun $ARGS train.py` becomes `srun torchrun --nnodes 2 train.py`. The
import then removes srun, torchrun and their options from the command. If $ARGS were still there, the import would take
$ARGS for the program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from distrain.imports.credentials import has_credential, is_credential
from distrain.imports.launch import shell
from distrain.imports.launch.shell import Command
from distrain.imports.launch.starters import MENTION, REFERENCE, first_word, name_of
from distrain.imports.launch.wrappers import chain

ASSIGNMENT = re.compile(r"\w+\+?=")
# A shell would interpret these characters. So a value that contains one of them is not put into the command's text.
UNSAFE = re.compile(r"""[;&|<>`"'\\()]""")
# Commands that set a variable, as in `export NAME=VALUE`, with the options that do not change the value.
SETTERS, OF_SETTER = {"export", "readonly", "declare", "typeset", "local"}, re.compile(r"-[gprx]+|--")
# After one of these commands, the next command runs only in some cases: `test -n "$A" && A=1`.
TESTS = {"test", "[", "[["}
# The value of a variable may refer to other variables. Each round replaces one level of references.
ROUNDS, LONGEST = 20, 4_000


def with_values(script: str, given: Mapping[str, str] | None = None) -> str:
    """Replace the variables in the options of programs that start ranks, and remove assignments that are then unused.

    `given` maps the variables of the script's environment to their values. The line numbers of commands do not change.
    """
    commands = shell.commands(script) or []
    known, used = _harmless(given or {}), set[str]()
    # Maps each variable to the other variables from which its value was composed.
    parts: dict[str, set[str]] = {}
    texts: list[str] = []
    for before, command in zip((None, *commands), commands, strict=False):
        _assign(known, parts, before, command)
        text, names = _resolved(script[command.start : command.end], known)
        texts.append(text)
        used |= names.union(*(parts.get(name, ()) for name in names))
    for index, command in [*enumerate(commands)][::-1]:
        text, old = texts[index], script[command.start : command.end]
        if _is_used_up(command, used, [*texts[:index], *texts[index + 1 :]] if used else ()):
            text = texts[index] = "\n" * text.count("\n")
        if text != old:
            script = script[: command.start] + text + script[command.end :]
    return script


def _is_used_up(command: Command, used: Collection[str], others: Sequence[str]) -> bool:
    """Tell whether a command only sets variables that have been replaced everywhere, so that it can be removed."""
    names = {word.partition("=")[0].rstrip("+") for word in assignments(command)}
    if not names or not names <= {*used} or command.words[0].text in SETTERS:
        return False
    return not names & {name for text in others for name in _names(text)}


def resolved_words(words: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Replace the variables in the options of programs that start ranks, in a command that runs without a shell."""
    found, known = [*words], _harmless(given)
    for _ in range(ROUNDS):
        place = _next(found, known)
        if place is None or sum(map(len, found)) > LONGEST:
            break
        text = REFERENCE.sub(lambda each: known.get(name_of(each[0]), each[0]), found[place])
        found[place : place + 1] = _words(text) if name_of(found[place]) else [text]
    return found


def _harmless(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose values are not credentials.

    If a credential were put in place of its variable, the values file would show it.
    """
    return {
        name: value for name, value in given.items() if not is_credential(name, value) and not has_credential(value)
    }


def assignments(command: Command) -> list[str]:
    """Return the NAME=VALUE words of a command that only sets variables; for any other command, return nothing."""
    words = [word.text for word in command.words]
    if words[0] in SETTERS:
        words = words[1 + sum(bool(OF_SETTER.fullmatch(word)) for word in words[1:2]) :]
    return words if words and all(ASSIGNMENT.match(word) for word in words) else []


def _assign(known: dict[str, str], parts: dict[str, set[str]], before: Command | None, command: Command) -> None:
    """Record the variables that a command sets. If the command may change a variable, forget its known value."""
    is_certain = before is None or (
        before.operator in ("\n", ";", "&&") and (before.operator != "&&" or before.words[0].text not in TESTS)
    )
    for word in assignments(command):
        name, _, value = word.partition("=")
        is_more, name = name.endswith("+"), name.removesuffix("+")
        names = _names(value) & set(known)
        parts[name] = names.union(*(parts.get(each, ()) for each in names)) | (
            parts.get(name, set()) if is_more else set()
        )
        plain = " ".join(value.replace("\\\n", " ").split())
        whole = REFERENCE.sub(lambda each: known.get(name_of(each[0]), each[0]), plain)
        if is_more:
            whole = f"{known.get(name, '')}{' ' if value[:1].isspace() else ''}{whole}".strip()
        is_usable = not UNSAFE.search(whole) and name not in _names(whole)
        is_usable = is_usable and len(whole) <= LONGEST and bool(_harmless({name: whole}))
        if is_certain and is_usable and (not is_more or name in known):
            known[name] = whole
        else:
            known.pop(name, None)


def _names(text: str) -> set[str]:
    return {name_of(found[0]) for found in REFERENCE.finditer(text)}


def _resolved(line: str, known: Mapping[str, str]) -> tuple[str, set[str]]:
    used = set[str]()
    for _ in range(ROUNDS):
        commands = shell.commands(line)
        words = commands[0].words if commands and len(commands) == 1 else ()
        place = _next([word.text for word in words], known)
        if place is None or len(line) > LONGEST:
            break
        word = words[place]
        text = line[word.start : word.end]
        names = _names(text) & set(known)
        if text.startswith("'") or "\\" in text or not names:
            break
        used |= names
        text = REFERENCE.sub(lambda each: known.get(name_of(each[0]), each[0]), text)
        line = line[: word.start] + text + line[word.end :]
    return line, used


def _next(words: Sequence[str], known: Mapping[str, str]) -> int | None:
    """Return the index of the next word in which a known variable must be replaced by its value, or None.

    A variable is replaced if its value begins with a program that starts ranks, such as mpirun. If the command begins
    with such a program or with a container runtime, variables in the words before the user's program are also replaced,
    and a variable in the place of the user's program.
    """
    first = first_word(words)
    name = name_of(words[first]) if first < len(words) else ""
    if name and MENTION.match(known.get(name, "")):
        return first
    before = chain(words)
    if not before.has_starter and not any(each.is_container for each in before.wrappers):
        return None
    places = [place for place in range(min(before.program, len(words))) if _names(words[place]) & set(known)]
    if before.program < len(words) and name_of(words[before.program]) in known:
        places.append(before.program)
    return places[0] if places else None


def _words(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return [value]
