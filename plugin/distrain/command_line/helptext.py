"""Read the help texts: `help/<command>.md` for each command, and `help/distrain.md` for the program as a whole.

--help shows a file as plain text; docs/plugin.md is generated from all files. A help file has the following form:

    # derive                        the command's name
    Print the values with ...       one sentence on one line; the list of commands shows it
    More paragraphs                 how to use it; --help shows them above the arguments
    ## Examples                     each example is a line of text, then the command, indented by four spaces; if `$ `
                                    stands before the command, its output may follow
    ## Exit codes                   a table, for a command with its own exit codes
    ## Any other title              shown only in docs/plugin.md

The supported Markdown is paragraphs, lists (`- `), tables and code indented by four spaces, and within a line `code`,
**strong** and [links](page.md). The help of each argument is in `parser.py`, not in these files.

This module imports little, and only from the standard library: it is loaded for each --help and each press of the Tab
key.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = os.path.join(os.path.dirname(__file__), "help")
PROGRAM = "distrain"
EXAMPLES, EXIT_CODES = "Examples", "Exit codes"
CODE_INDENT = "    "


class HelpText:
    """The help text of one command, in Markdown."""

    def __init__(self, name: str, summary: str, description: str, sections: dict[str, str]) -> None:
        self.name, self.summary, self.description, self.sections = name, summary, description, sections


def read(name: str) -> HelpText:
    """Return the help text of a command, or of the program."""
    with open(os.path.join(FOLDER, f"{name}.md"), encoding="utf-8") as file:
        intro, *sections = file.read().split("\n## ")
    _, summary, description = (intro.strip() + "\n\n").split("\n\n", 2)
    titled = (section.partition("\n") for section in sections)
    return HelpText(name, summary, description.strip(), {title: body.strip("\n") for title, _, body in titled})


def plain(markdown: str, width: int) -> str:
    """Convert Markdown to plain text for a terminal that has this number of columns."""
    # Splitting at empty lines also splits a code block that contains an empty line. The parts of the code block still
    # look right.
    blocks = re.split(r"\n{2,}", markdown)
    return "\n\n".join("\n".join(_plain_block(block.split("\n"), width)) for block in blocks)


def _plain_block(block: Sequence[str], width: int) -> list[str]:
    if block[0].startswith(CODE_INDENT):
        return [line[2:] for line in block]
    if block[0].startswith("|"):
        return _plain_table(block, width)
    items = re.split(r"^- ", "\n".join(block), flags=re.MULTILINE)
    if len(items) == 1:
        return _wrapped(" ".join(block), width)
    return [line for item in items if item for line in _wrapped(" ".join(item.split()), width, "- ")]


def _plain_table(block: Sequence[str], width: int) -> list[str]:
    """Align the rows of a table in columns. The last column gets the rest of the width."""
    rows = [[_inline(cell.strip()) for cell in line.strip("|").split("|")] for line in block if "---" not in line]
    *columns, _ = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for *cells, last in rows:
        head = "  " + "".join(f"{cell:<{size + 2}}" for cell, size in zip(cells, widths, strict=True))
        lines += _wrapped(last, width, head)
    return lines


def _wrapped(words: str, width: int, head: str = "") -> list[str]:
    """Wrap the words into lines: the first line follows the head, and the others are indented below it."""
    # Imported late, because completion and parsing do not need it.
    import textwrap

    lines = textwrap.wrap(
        _inline(words),
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [head.rstrip()]


def _inline(words: str) -> str:
    """Remove the Markdown markup of code, strong words and links, but keep their text."""
    return re.sub(r"`([^`]*)`|\*\*(.+?)\*\*|\[([^]]*)\]\([^)]*\)", lambda found: _inline_text(found), words)


def _inline_text(found: re.Match[str]) -> str:
    code, strong, link = found.groups()
    return code if code is not None else _inline(strong if strong is not None else link)
