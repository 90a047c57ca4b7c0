"""Complete command lines in a shell.

The command `completion` prints a script for the shell. This script and Helm call the command `__complete`, which prints
the candidates.

To complete the arguments of a plugin, Helm uses cobra's protocol. The input consists of the words that the user has
typed; the last word is unfinished. The output has one candidate per line; a tab separates it from its description. The
last line is a colon and a number, which tells the shell what else to do. After an error, nothing is printed, because a
message would appear in the middle of the user's command line.
"""

from __future__ import annotations

import argparse
import os
from itertools import pairwise

from distrain import console
from distrain.command_line import helptext
from distrain.command_line.arguments import Parser
from distrain.command_line.flags import CHART
from distrain.command_line.parser import parser

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

# Numbers of cobra's protocol.
FILES, NO_SPACE, NO_FILES = 0, 2, 4
# For these commands NAME is a new release; for all other commands NAME is an existing release.
NAMES_NEW = ("install", "template")
# Maps an argument to the path of the chart's value that allows the same choices.
CHOICES = {"framework": ("framework",), "strategy": ("strategy",), "kind": ("job", "kind")}
INSTANCES = os.path.join(os.path.dirname(__file__), os.pardir, "instances", "instances.json")
# Flags that choose the cluster and the namespace of the releases.
CLUSTER = ("-n", "--namespace", "--kube-context", "--kubeconfig")
# Completion waits at most PATIENCE_S seconds for the cluster's list of releases.
PATIENCE_S = 2

SHELLS = {
    "bash": """\
_distrain() {
  local IFS=$'\\n' lines directive
  lines=($(distrain __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [ ${#lines[@]} -gt 0 ] || return
  directive=${lines[${#lines[@]}-1]#:}
  unset "lines[${#lines[@]}-1]"
  COMPREPLY=("${lines[@]%%$'\\t'*}")
  [ $((directive & 2)) -eq 0 ] || compopt -o nospace
  [ $((directive & 4)) -ne 0 ] || compopt -o default
}
complete -F _distrain distrain""",
    "zsh": """\
#compdef distrain
_distrain() {
  local -a lines candidates
  local line directive
  lines=("${(@f)$(distrain __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  directive=${lines[-1]#:}
  for line in "${(@)lines[1,-2]}"; do
    line=${line//:/\\\\:}
    candidates+=("${line/$'\\t'/:}")
  done
  if (( ${#candidates} )); then
    if (( directive & 2 )); then _describe distrain candidates -S ''; else _describe distrain candidates; fi
  elif (( ! (directive & 4) )); then
    _files
  fi
}
# If zsh autoloads this file, answer at once; if it is sourced, register the function.
if [ "$funcstack[1]" = _distrain ]; then _distrain "$@"; else compdef _distrain distrain; fi""",
    "fish": """\
function __distrain_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l lines (distrain __complete $words[2..] 2>/dev/null)
  test (count $lines) -gt 0; or return
  test (count $lines) -gt 1; and string join -- \\n $lines[1..-2]
  test $lines[-1] = :0; and __fish_complete_path (commandline -ct)
end
complete -c distrain -f -a '(__distrain_complete)'""",
}


class Candidates:
    """The candidates for one word, each with its description, and what else the shell may do with them."""

    def __init__(self, words: dict[str, str], directive: int = NO_FILES) -> None:
        self.words, self.directive = words, directive


def run(options: argparse.Namespace) -> int:
    console.answer(SHELLS[options.shell])
    return 0


def run_complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word to the shell."""
    # bash splits --output=json at the equals sign.
    *typed, unfinished = [word for word in words if word != "="] or [""]
    found = complete(typed, unfinished)
    lines = [f"{word}\t{told}" if told else word for word, told in found.words.items() if word.startswith(unfinished)]
    console.answer("\n".join([*lines, f":{found.directive}"]))
    return 0


def complete(typed: Sequence[str], unfinished: str) -> Candidates:
    """Return the candidates for the word that follows the typed words."""
    program = parser(typed)
    commands = program.commands
    command = next((word for word in typed if word in commands), None)
    if command is None:
        described = {name: helptext.read(name).summary for name in commands}
        return Candidates(_flags(program) if unfinished.startswith("-") else described)
    arguments = commands[command]
    words = typed[typed.index(command) + 1 :]
    flag, is_joined, _ = unfinished.partition("=")
    if is_joined and (action := arguments.flags.get(flag)):
        found = _values(action, command, words)
        return Candidates({f"{flag}={value}": told for value, told in found.words.items()}, found.directive)
    positionals = arguments.positionals
    awaited, seen = _place(arguments, words)
    if awaited:
        return _values(awaited, command, words)
    if unfinished.startswith("-") or seen >= len(positionals):
        return Candidates(_flags(arguments))
    return _values(positionals[seen], command, words)


def _place(arguments: Parser, words: Sequence[str]) -> tuple[argparse.Action | None, int]:
    """Return the flag whose value comes next, or None, and the number of positional arguments so far."""
    awaited: argparse.Action | None = None
    seen = 0
    for word in words:
        if awaited:
            awaited = None
        elif word.startswith("-") and word != "-":
            action = arguments.flags.get(word)
            awaited = action if action and action.nargs != 0 and word not in arguments.alone else None
        else:
            seen += 1
    return awaited, seen


def _flags(arguments: Parser) -> dict[str, str]:
    """Return the flags with their descriptions. A flag that also has a short form is returned in its long form."""
    flags = dict.fromkeys(arguments.flags.values())
    return {action.option_strings[-1]: (action.help or "").replace("%%", "%") for action in flags}


def _values(action: argparse.Action, command: str, words: Sequence[str]) -> Candidates:
    """Return the candidates for the value of a flag or a positional argument."""
    if action.choices:
        return Candidates({str(choice): "" for choice in action.choices})
    if action.dest in CHOICES:
        return Candidates(dict.fromkeys(_choices(CHOICES[action.dest]), ""))
    if action.dest == "instance":
        return Candidates(_instances())
    if action.metavar in ("FILE", "FOLDER", "PLACE", "CHART"):
        return Candidates({}, FILES)
    if action.metavar == "KEY=VALUE":
        return Candidates(dict(_leaves(_schema())), NO_FILES | NO_SPACE)
    if action.dest == "runs":
        return Candidates(dict.fromkeys(_releases(words), "release"), FILES)
    if action.dest in ("name", "release") and command not in NAMES_NEW:
        return Candidates(dict.fromkeys(_releases(words), "release"))
    return Candidates({})


def _choices(path: Sequence[str]) -> list[str]:
    entry = _schema()
    for key in path:
        entry = entry["properties"].get(key, {"properties": {}})
    return list(entry.get("enum", ()))


def _schema() -> dict[str, Any]:
    """Return the chart's schema, or an empty schema if the file does not exist."""
    # Import only here, because each press of the Tab key waits for all imports.
    import json

    try:
        with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {"properties": {}}


def _instances() -> dict[str, str]:
    """Return the names of the instance types with GPUs, each with a description of its GPUs."""
    import json

    with open(INSTANCES, encoding="utf-8") as file:
        rows = [row for provider in json.load(file).values() for row in provider["instances"] if row["gpus"]]
    return {row["type"]: f"{row['gpus']} x {row['gpu']}" for row in rows}


def _leaves(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each value in the schema, as --set takes it, with the value's description."""
    for name, inner in entry["properties"].items():
        if "properties" in inner:
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}=", inner.get("description", "")


def _releases(words: Sequence[str]) -> list[str]:
    """Return the releases in the namespace and cluster of the typed flags.

    Without flags, Helm's environment is used.
    """
    import subprocess

    where = [part for flag, value in pairwise(words) if flag in CLUSTER for part in (flag, value)]
    command = [os.environ.get("HELM_BIN") or "helm", "list", "--short", *where]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()
