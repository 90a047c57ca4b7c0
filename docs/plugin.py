"""Generate docs/plugin.md from the commands' help texts and arguments: `make docs`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from distrain.command_line import helm_flags, helptext
from distrain.command_line.arguments import Parser
from distrain.command_line.helptext import HelpText
from distrain.command_line.parser import parser

TARGET = Path(__file__).with_suffix(".md")
INSTALL = """\
    helm plugin install ./plugin     # or a checkout's plugin folder; Helm 3.21 and 4.2 are tested

The installation creates a Python environment of pinned packages for the plugin. It needs Python 3.10 or newer.
"""
SOURCE = """\
`helm distrain COMMAND --help` shows the same. `make docs` generates this page from the files in
[plugin/distrain/command_line/help](../plugin/distrain/command_line/help).
"""


def document() -> str:
    """Return the text of docs/plugin.md."""
    commands = parser().commands
    program = helptext.read(helptext.PROGRAM)
    texts = {name: helptext.read(name) for name in commands}
    listed = "".join(f"| [{name}](#{name}) | {text.summary} |\n" for name, text in texts.items())
    parts = [f"# helm distrain\n\n{program.summary}\n", INSTALL, program.description + "\n"]
    parts += [
        f"| command | what it does |\n|---|---|\n{listed}",
        SOURCE,
        *_sections(program, "##", [helptext.EXAMPLES]),
    ]
    for name, text in texts.items():
        parts += [*_command(text, commands[name])]
    shared = {title: _rows(group) for arguments in commands.values() for title, group in arguments.groups.items()}
    parts += [f"## Arguments: {title}\n\n{rows}" for title, rows in shared.items()]
    parts.append(f"## {helm_flags.TITLE}\n\n{helm_flags.INTRODUCTION}\n\n{helm_flags.table()}\n")
    parts += _sections(program, "##", [title for title in program.sections if title != helptext.EXAMPLES])
    return "\n".join(parts)


def _command(text: HelpText, arguments: Parser) -> Iterator[str]:
    yield f"## {text.name}\n\n{text.summary}\n"
    if text.description:
        yield text.description + "\n"
    shared = [arguments.flags["--help"], *(action for group in arguments.groups.values() for action in group)]
    if rows := _rows([action for action in arguments.arguments if action not in shared]):
        yield f"### Arguments\n\n{rows}"
    yield from _sections(text, "###", text.sections)


def _sections(text: HelpText, level: str, titles: Sequence[str] | dict[str, str]) -> Iterator[str]:
    for title in titles:
        yield f"{level} {title}\n\n{text.sections[title]}\n"


def _rows(actions: Sequence[argparse.Action]) -> str:
    rows = "".join(f"| {_named(action)} | {_escaped(action.help or '')} |\n" for action in actions)
    return f"| argument | what it does |\n|---|---|\n{rows}" if rows else ""


def _named(action: argparse.Action) -> str:
    value = action.metavar or (action.choices and "{" + ",".join(action.choices) + "}") or ""
    value = "" if action.nargs == 0 else str(value)
    forms = {"?": f"[{value}]", "*": f"[{value}...]"}
    names = ", ".join(action.option_strings) or forms.get(str(action.nargs), value)
    return f"`{_escaped(f'{names} {value}'.strip() if action.option_strings else names)}`"


def _escaped(words: str) -> str:
    """Put a backslash before each bar in the text of a table cell.

    Markdown would read a bar without a backslash as the end of the cell.
    """
    return words.replace("|", "\\|").replace("%%", "%")


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET}")
