"""Find the command lines in the code blocks of README.md and docs/."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.paths import REPOSITORY

# docs/plugin.md is left out, because it is generated from the help texts. tests/plugin/command_line/test_help.py parses
# the commands there.
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *(page for page in sorted((REPOSITORY / "docs").glob("*.md")) if page.name != "plugin.md"),
]
FENCE = re.compile(r"^```(\w*)$")
ASSIGNMENT = re.compile(r"^[A-Z_][A-Z0-9_]*=")
# In a block that contains commands and their output, this prompt marks the commands.
PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """A code block of a page: its language (or ""), and its lines without the indentation."""

    page: str
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A command line on a page, and its program."""

    page: str
    text: str
    program: str

    @property
    def words(self) -> list[str]:
        """Return the words of the command, from its program to the end or to a pipe."""
        words = shlex.split(re.split(r" [|>&]|;", self.text)[0], comments=True)
        return [word for number, word in enumerate(words) if not _is_before(words, number)]


def _is_before(words: list[str], number: int) -> bool:
    """Return whether the word at this position and all words before it assign environment variables."""
    return all(ASSIGNMENT.match(word) for word in words[: number + 1])


def blocks(page: Path) -> Iterator[Block]:
    """Yield the page's code blocks, both the indented and the fenced ones."""
    language: str | None = None
    block: list[str] = []
    is_before_a_block = True
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if fence := FENCE.match(line.strip()):
            if language is not None:
                yield Block(page.name, language, tuple(block))
            language, block = (fence[1], []) if language is None else (None, [])
        elif language is not None:
            block.append(line.strip())
        elif line.startswith("    ") and (block or is_before_a_block):
            block.append(line)
        elif line.strip() and block:
            yield Block(page.name, "", tuple(_without_indent(block)))
            block = []
        is_before_a_block = not line.strip()
    if block:
        yield Block(page.name, "", tuple(_without_indent(block)))


def _without_indent(block: list[str]) -> list[str]:
    least = min(len(line) - len(line.lstrip()) for line in block)
    return [line[least:] for line in block]


def lines(programs: set[str]) -> list[Line]:
    """Return the command lines on all pages. A command line begins with one of these programs or follows a prompt."""
    return [line for page in PAGES for block in blocks(page) for line in of_block(block, programs)]


def of_block(block: Block, programs: set[str]) -> Iterator[Line]:
    if block.language not in ("", "bash"):
        return
    has_prompts = any(line.startswith(PROMPT) for line in block.lines)
    for text in "\n".join(block.lines).replace("\\\n", " ").splitlines():
        program = program_of(text.removeprefix(PROMPT))
        if text.startswith(PROMPT) if has_prompts else program in programs:
            yield Line(block.page, text.removeprefix(PROMPT), program)


def program_of(text: str) -> str:
    """Return the program of a command line, after any assignments of environment variables."""
    words = [word for word in text.split() if not ASSIGNMENT.match(word)]
    return words[0].strip('"') if words else ""
