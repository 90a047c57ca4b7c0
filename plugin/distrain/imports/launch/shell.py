"""Split a shell script into its commands, if the script does little more than start one program.

An example is `bash -c "cd /work && mpirun -np 4 python train.py | tee log"`. The position of each word in the script is
kept, so that the text of the program can be taken over exactly as written, with quotes and variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

SHELLS = ("sh", "bash", "dash", "ash", "zsh")
# Characters, except quotes, that a shell interprets inside a word.
SPECIAL = re.compile(r"[$`*?~<>(){}\[\]\\!#]")
# Where a command begins.
BEGIN = r"(?:^|[;&|({]|\b(?:do|then|else)\s)[ \t]*"
# Patterns of shell syntax that is more than a list of simple commands, each with its name in messages.
BEYOND = (
    (rf"{BEGIN}(?:for|while|until|select)\s", "a loop"),
    (rf"{BEGIN}(?:if|case)\s", "a condition"),
    (rf"{BEGIN}function\s|\(\s*\)", "a function"),
    (r"<<", "a here-document"),
    (r"[<>]\(", "a substituted process"),
    (r"\w\+?=\(", "an array"),
    (r"^[ \t]*[({]", "a group of commands"),
)
# Matches a quoted text, an escaped character, a here-document, a comment, or any other character.
PIECE = re.compile(
    r"""\$?"(?:[^"\\]|\\.)*"|'[^']*'|\\.|(?<!<)<<-?[ ]*(?P<quote>["']?)(?P<end>\w+)(?P=quote)[^\n]*\n"""
    r".*?\n\t*(?P=end)(?=\n|\Z)"
    r"|(?:(?<=[\s;&|(])|\A)\#[^\n]*|.",
    re.DOTALL,
)
SYNTAX = re.compile("|".join(f"({pattern})" for pattern, _ in BEYOND), re.MULTILINE)
# Matches quoted texts, escaped characters and comments. Operators inside of them have no meaning for a shell.
PLAIN_TEXT = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|(?<![^\s;&|(])\#[^\n]*""", re.DOTALL)
OPERATOR = re.compile(r"&&|\|\||\|&?|;|\n|(?<![<>])&(?!>)")


class Word(Struct, frozen=True):
    """A word without its quotes, and its position in the script."""

    text: str
    start: int
    end: int


class Command(Struct, frozen=True):
    """A simple command: its words, its position, and the operator after it."""

    words: tuple[Word, ...]
    start: int
    end: int
    operator: str


def script_of(words: Sequence[str]) -> int | None:
    """Return the index of the script in a command such as `bash -lc SCRIPT`; None for a command without one."""
    if not words or PurePosixPath(words[0]).name not in SHELLS:
        return None
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith(("-", "+")):
            return None
        if not word.startswith("--") and "c" in word[1:]:
            return index + 1 if index + 1 < len(words) else None
    return None


def words_of(line: str) -> list[str]:
    """Return the words of a line of a shell; a line that only a shell understands becomes `sh -c LINE`."""
    found = commands(line)
    if not found or len(found) > 1 or SPECIAL.search(line) or "=" in found[0].words[0].text:
        return ["sh", "-c", line.strip()]
    return [word.text for word in found[0].words]


def commands(script: str) -> list[Command] | None:
    """Return the simple commands of a script; None if it has loops, conditions or an open quote."""
    found, end = _split(script)
    return None if end is not None or _beyond(script) else found


def obstacle(script: str) -> tuple[int, str]:
    """Say why `commands` returns None for a script: return the line and the name of the syntax that it cannot split."""
    beyond = _beyond(script)
    if beyond:
        place = beyond.start() + len(beyond[0]) - len(beyond[0].lstrip(" \t\n;&|({"))
        return _line(script, min(place, beyond.end() - 1)), BEYOND[(beyond.lastindex or 1) - 1][1]
    return _line(script, _split(script)[1] or 0), "a quote that is not closed"


def _line(script: str, place: int) -> int:
    return script[:place].count("\n") + 1


def _beyond(script: str) -> re.Match[str] | None:
    return SYNTAX.search(PLAIN_TEXT.sub(_masked, script))


def _masked(found: re.Match[str]) -> str:
    """Replace a quoted text, a comment or an escaped character by as many underscores or blanks.

    A quoted text or an escaped character becomes underscores, so that it counts as part of one word. A comment becomes
    blanks. An escaped line end becomes blanks, too, so that the next line continues the command.
    """
    return (" " if found[0].startswith(("#", "\\\n")) else "_") * len(found[0])


def _split(script: str) -> tuple[list[Command], int | None]:
    """Return the simple commands of a script.

    If a quote is not closed, also return the index at which the word with the quote begins.
    """
    found: list[Command] = []
    words: list[Word] = []
    place = start = 0
    while place < len(script):
        operator = OPERATOR.match(script, place)
        if operator:
            found += [Command(tuple(words), start, place, operator[0])] if words else []
            words, place = [], operator.end()
            start = place
        elif script[place].isspace() or script.startswith("\\\n", place):
            place += 1 if script[place] != "\\" else 2
        elif script[place] == "#":
            place = len(script) if (end := script.find("\n", place)) < 0 else end
        else:
            word = _word(script, place)
            if word is None:
                return found, place
            words.append(word)
            place = word.end
    return ([*found, Command(tuple(words), start, len(script), "")] if words else found), None


def without_comments(script: str) -> str:
    """Return a script without its comments. In a here-document a # begins no comment, so the text stays."""
    if "#" not in script:
        return script
    kept = (found[0] if found[0][0] != "#" else "" for found in PIECE.finditer(script))
    return "".join(kept).strip()


def _word(script: str, start: int) -> Word | None:
    """Return the word that begins at this index; None if its quote is never closed."""
    text, quote, place = "", "", start
    while place < len(script):
        char = script[place]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and script[place + 1 : place + 2] in ('"', "\\", "$", "`"):
                place += 1
                text += script[place]
            else:
                text += char
        elif char in "\"'":
            quote = char
        elif script.startswith(("$(", "${"), place):
            end = _end_of_substitution(script, place)
            text, place = text + script[place : end + 1], end
        elif char == "\\" and place + 1 < len(script):
            place += 1
            text += script[place] if script[place] != "\n" else ""
        elif char.isspace() or OPERATOR.match(script, place):
            break
        else:
            text += char
        place += 1
    return None if quote else Word(text, start, place)


def _end_of_substitution(script: str, start: int) -> int:
    """Return the index of the bracket that closes the $( or ${ at this index.

    If the bracket is never closed, return the index of the script's last character.
    """
    depth, (opens, closes) = 0, ("()" if script[start + 1] == "(" else "{}")
    for place in range(start + 1, len(script)):
        depth += (script[place] == opens) - (script[place] == closes)
        if not depth:
            return place
    return len(script) - 1
