"""Draw random sentences from comments, messages and pages, to count those that must be read twice: `make bench-prose`.

The sentences come from comments and docstrings of Python code and of tests, from messages, from comments of templates
and values files, and from pages. The draw takes about the same number of sentences from each of these kinds. The same
seed draws the same sentences.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from docs.messages import REPOSITORY, groups

SENTENCES = 200
# Sentences with fewer words are mostly names, not prose.
FEWEST_WORDS = 5
TEMPLATE_COMMENT = re.compile(r"\{\{-?\s*/\*(.*?)\*/\s*-?\}\}", re.DOTALL)
# Copies of earlier releases' scripts are not edited any more.
OF_RELEASES = ":!tests/chart/scripts/previous"
YAML_COMMENT = re.compile(r"^(\s*)# ?(.*)$")
# Comments that begin with these words are instructions for linters and editors.
OF_TOOLS = re.compile(r"^(noqa|type:|fmt:|pragma|shellcheck|!|yamllint|yaml-language-server|made by )")
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(\[])")


class Sentence(NamedTuple):
    place: str
    text: str


def main() -> None:
    """Print the sentences as a numbered list, each with the file and line that contains it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    given = parser.parse_args()
    for number, (place, text) in enumerate(drawn(given.seed, given.sentences), 1):
        print(f"{number}. {text} — {place}")


def drawn(seed: int, count: int) -> list[Sentence]:
    """Return `count` different sentences, about the same number of each kind."""
    choice, kinds = random.Random(seed), all_kinds()
    share = -(-count // len(kinds))
    chosen = [sentence for kind in kinds.values() for sentence in choice.sample(kind, min(share, len(kind)))]
    choice.shuffle(chosen)
    return chosen[:count]


def all_kinds() -> dict[str, list[Sentence]]:
    """Return all sentences of the repository by kind, without duplicates."""
    code = [path for path in _tracked("*.py") if not path.startswith("tests/")]
    tests = [path for path in _tracked("*.py") if path.startswith("tests/")]
    kinds = {
        "comments": [each for path in code for each in of_python_comments(path)],
        "docstrings": [each for path in code for each in of_docstrings(path)],
        "tests": [each for path in tests for each in (*of_python_comments(path), *of_docstrings(path))],
        "messages": [Sentence("a message", text) for _, _, told in groups() for text in told],
        "templates": [each for path in _tracked("charts/*.tpl", "charts/*.yaml") for each in of_template(path)],
        "values": [each for path in _tracked("charts/distrain/values.yaml", "values/*") for each in of_yaml(path)],
        "pages": [each for path in _tracked("*.md") for each in of_page(path)],
    }
    return {kind: sorted(dict.fromkeys(found)) for kind, found in kinds.items()}


def sentences(place: str, text: str) -> Iterator[Sentence]:
    """Split a paragraph into sentences.

    Leave out sentences with fewer than FEWEST_WORDS words, and comments for tools.
    """
    for each in END.split(" ".join(text.split())):
        if len(each.split()) >= FEWEST_WORDS and not OF_TOOLS.match(each):
            yield Sentence(place, each)


def of_python_comments(path: str) -> Iterator[Sentence]:
    """Yield the sentences of comments. Comments on consecutive lines form one paragraph."""
    block: list[str] = []
    last = (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(_text(path)).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        if (line, column) != (last[0] + 1, last[1]):
            yield from sentences(f"{path}:{last[0]}", " ".join(block))
            block = []
        block.append(token.string.lstrip("#").strip())
        last = line, column
    yield from sentences(f"{path}:{last[0]}", " ".join(block))


def of_docstrings(path: str) -> Iterator[Sentence]:
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            place = f"{path}:{getattr(node, 'lineno', 1)}"
            for paragraph in text.split("\n\n"):
                if not paragraph.startswith(" "):
                    yield from sentences(place, paragraph)


def of_template(path: str) -> Iterator[Sentence]:
    for match in TEMPLATE_COMMENT.finditer(text := _text(path)):
        for paragraph in re.split(r"\n\n|^\s*distrain\.[\w.]+\s", match[1], flags=re.MULTILINE):
            yield from sentences(f"{path}:{text.count(chr(10), 0, match.start()) + 1}", paragraph)


def of_yaml(path: str) -> Iterator[Sentence]:
    block: list[str] = []
    for number, line in enumerate([*_text(path).splitlines(), ""], 1):
        match = YAML_COMMENT.match(line)
        if match and match[2] and not OF_TOOLS.match(match[2]):
            block.append(match[2])
        elif block:
            yield from sentences(f"{path}:{number - 1}", " ".join(block))
            block = []


def of_page(path: str) -> Iterator[Sentence]:
    """Yield the sentences of a page's paragraphs and tables. Leave out headings and code blocks."""
    text = re.sub(r"^```.*?^```", "", _text(path), flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*|] |\d+\. )", text):
        if not paragraph.startswith(("#", "    ", "<!--", "| ---", "|---", "![")):
            for cell in paragraph.split(" | ") if paragraph.startswith("|") else [paragraph]:
                yield from sentences(path, cell.strip("| "))


def _tracked(*patterns: str) -> list[str]:
    """Return the tracked and new files that match, without generated files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns, OF_RELEASES]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    generated = {"docs/messages.md", "docs/causes.md", "docs/values.md", "docs/plugin.md"}
    return [path for path in found if path not in generated and (REPOSITORY / path).exists()]


def _text(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
