"""Quote a source in messages and comments without showing credentials.

Every text of a source that a message shows passes through this module. In `mc alias set s3 URL KEY SECRET`, for
example, no name shows that an argument is secret. So a quoted command shows only the program and a known sub-command. A
value is quoted only if it is a number or looks like plain words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from distrain.imports.credentials import hidden
from distrain.imports.secrets.names import OF_NAME, OF_VALUE, has_parts
from distrain.redact import HIDDEN

REST = "…"
# Longer values are not quoted in messages.
LONGEST = 100
PLAIN = re.compile(r"[\w\-+./:=,@~()\[\]{}$%*#^<>' ]*", re.ASCII)
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
# A valid name of a Kubernetes object or container.
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
PROGRAM = re.compile(r"(?=.{1,32}$)[A-Za-z]+\d{0,3}(?:[._+-](?:[A-Za-z]+\d{0,2}|\d{1,2}))*|[.:\[]")
VARIABLE = re.compile(r"[A-Za-z_]\w*(?=\+?=)")
# An option. The value of a single-letter option may be in the same word, as in -pPASSWORD.
OPTION = re.compile(r"--[A-Za-z][A-Za-z_-]{0,40}(?==|$)|-[A-Za-z](?!\w*=)")
# Known sub-commands, such as `login` in `docker login`. A message may show them, because they say what the program did.
# Any other first argument may be a password, so messages do not show it.
SUB_COMMANDS = {
    *("activate", "add", "alias", "apply", "auth", "build", "clone", "config", "configure", "copy", "cp", "create"),
    *("download", "export", "extract", "fetch", "get", "host", "import", "init", "install", "launch", "load", "login"),
    *(
        "logout",
        "ls",
        "mb",
        "mirror",
        "mount",
        "mv",
        "param",
        "pull",
        "push",
        "registry",
        "remote",
        "remove",
        "restore",
    ),
    *("rm", "run", "s3", "set", "setup", "show", "start", "stop", "swap", "sync", "test", "unload", "update"),
    *("upload", "use"),
}


def command(words: Sequence[str]) -> str:
    """Return the short form of a command for a message: the program, its known sub-command, and … for all other words.

    For a command that only sets variables, the names of the variables are shown.
    """
    named = [VARIABLE.match(word) for word in words]
    start = next((place for place, found in enumerate(named) if not found), len(words))
    if start == len(words) or (words[0] == "export" and all(named[1:])):
        shown = [f"{_variable(found[0])}={REST}" for found in named if found]
        return " ".join(["export", *shown] if start != len(words) else shown) or REST
    program = PurePosixPath(words[start]).name or REST
    shown = [program if PROGRAM.fullmatch(program) else REST]
    following = words[start + 1 : start + 2]
    shown += [word for word in following if word in SUB_COMMANDS]
    return " ".join([*shown, *[REST] * (len(words) > start + len(shown) or start > 0)])


def _variable(name: str) -> str:
    return name if has_parts(name, OF_NAME) else REST


def line(text: str) -> str:
    """Return the short form of a command line for a message: the program, its known sub-command, and … for the rest."""
    return command(text.split()) if text.split() else REST


def options(text: str) -> str:
    """Return the names of the options in a line, and … for all other words."""
    names = [found[0] for found in map(OPTION.match, text.split()) if found]
    return " ".join([*names, *[REST] * (not names or names != text.split())])


def value(found: Any) -> str:
    """Return a value if it is a number or plain words; otherwise say that it is hidden."""
    if isinstance(found, dict | list):
        return "a mapping" if isinstance(found, dict) else "a list"
    words = str(found)
    is_plain = PLAIN.fullmatch(words) and has_parts(DIGEST.sub("", words), OF_VALUE)
    return words if is_plain and len(words) <= LONGEST and hidden(words) == words else HIDDEN


def literal(found: Any) -> str:
    """Like value(), but put a text in quotes."""
    shown = value(found)
    return repr(found) if isinstance(found, str) and shown == found else shown


def key(found: Any) -> str:
    """Return the name of a field, a variable or an object, unless it looks like a credential."""
    words = str(found)
    is_name = NAME.fullmatch(words) or has_parts(words, OF_NAME)
    return words if is_name and hidden(words) == words else HIDDEN
