"""Generate docs/messages.md, the list of the messages of commands and runs, from the code: `make docs`.

In Python, a message is an argument of an error class; docs/message_texts.py finds its texts. In the chart, a message is
a string in a template that begins with `distrain: `.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs.message_texts import UNKNOWN, Modules, Scope, all_texts

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(__file__).with_suffix(".md")
TEMPLATES = REPOSITORY / "charts" / "distrain" / "templates"
HEAD = """# Messages

This page lists the messages with which a command, an installation or a run of distrain ends. Search the page for words
of your message; `…` stands for names and numbers. The first column says what is wrong, the second what to do. Some
messages combine parts that never occur together. Three sections list lines after which the command or the run goes on:
"Lines beside an answer", "Lines of a run that goes on" and "Lines of the pods while the run goes on". There the second
column is only the end of the line. [troubleshooting.md](troubleshooting.md) starts from symptoms, and
[causes.md](causes.md) lists the causes that `helm distrain status` names. `make docs` writes this page from the code.
"""


@dataclass(frozen=True, eq=False)
class Part:
    """A part of distrain written in Python: its folder, its errors' base classes, and the program that prints them.

    `common` is one description for all error classes of the part. If `common` is empty, each error class is described
    by its own docstring. `lines` maps the heading of a group of messages to the functions that print them.
    """

    who: str
    folder: str
    package: str
    roots: tuple[str, ...]
    lines: dict[str, tuple[str, ...]]
    common: str = ""


PARTS = (
    Part(
        "helm distrain", "plugin", "distrain", ("DistrainError",),
        {
            "Sources that cannot be imported": ("draft.refuse", "self.refuse", "translation.refuse", "made.refuse"),
            "Lines beside an answer": ("console.say", "console.tell"),
        },
    ),
    Part(
        "The trainer, in the log of a rank", "trainer", "distrain_trainer", ("TrainerError",),
        {"Lines of a run that goes on": ("log.print", "say", "_print", "self.say")},
    ),
    Part(
        "The scripts of the pods", "charts/distrain", "files",
        ("LaunchError", "WorkerError", "KeygenError", "TestError"),
        {
            "Causes of a failure": ("Ended", "fail", "self.count_failure", "restarts.add"),
            "Lines of the pods while the run goes on": ("say",),
        },
        "Why a launcher, a worker or a hook gives up",
    ),
)  # fmt: skip
# These are the placeholders of `printf` in Helm templates.
PRINTF = re.compile(r"%[a-z]")
LITERAL = re.compile(r'"(distrain: (?:[^"\\]|\\.)*)"')
COLUMNS = ("finding", "next step")


@dataclass(frozen=True)
class Site:
    """A call that creates an error or prints a line.

    It has the function's name, the texts of the arguments, and the position in the code.
    """

    called: str
    texts: tuple[str, ...]
    place: str


def chart_messages() -> list[str]:
    """Return the messages with which the chart refuses values."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.rglob("*.tpl")))
    lines = (line for text in texts for line in LITERAL.findall(text))
    return sorted({_plain(line) for line in lines})


def _plain(line: str) -> str:
    unescaped = line.replace(r"\n", "").replace(r"\"", '"')
    return PRINTF.sub(UNKNOWN, unescaped).removeprefix("distrain: ")


@cache
def modules_of(folder: str, package: str) -> Modules:
    root = REPOSITORY / folder
    scripts = (path for path in sorted((root / package).rglob("*")) if path.suffix == ".py" or _is_script(path))
    return Modules(root if package != "files" else root / package, scripts)


def _is_script(path: Path) -> bool:
    return path.is_file() and not path.suffix and path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")


def error_classes(modules: Modules, roots: tuple[str, ...]) -> dict[str, str]:
    """Return the error classes of a part, each with the first line of its docstring."""
    classes = [node for module in modules.matching(r"\bclass \w+Error\b").values() for node in module.classes]
    found = {node.name: node for node in classes if node.name in roots}
    while more := [node for node in classes if node.name not in found and _bases(node) & found.keys()]:
        found |= {node.name: node for node in more}
    return {name: (ast.get_docstring(node) or name).partition("\n")[0] for name, node in found.items()}


def _bases(node: ast.ClassDef) -> set[str]:
    return {base.id for base in node.bases if isinstance(base, ast.Name)}


@cache
def sites_of(part: Part) -> list[Site]:
    """Return the calls in this part that create an error, or that print a line with a function in `lines`."""
    modules = modules_of(part.folder, part.package)
    names = {*error_classes(modules, part.roots), *(name for names in part.lines.values() for name in names)}
    found = []
    for name, module in modules.matching(rf"\b({'|'.join(map(re.escape, names))})\(").items():
        for node, function in module.calls:
            if (called := _called(node.func)) in names:
                scope = Scope(modules, name, function)
                texts = (text for argument in node.args for text in all_texts(argument, scope))
                told = tuple(dict.fromkeys(" ".join(text.split()) for text in texts))
                found.append(Site(called, told, f"{name}:{function.name if function else ''}"))
    return found


def _called(function: ast.expr) -> str:
    """Return a called function's name as in the source, for example `console.say`."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=before) | ast.Attribute(attr=before), attr=name):
            return f"{before}.{name}"
    return ""


def has_words(text: str) -> bool:
    """Return whether a text is a message: it has at least two words, and the part before its first `;` is not empty.

    Any other text only forwards a message that is written elsewhere.
    """
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 2 and not re.search(r"(^|: );", text)


def groups() -> Iterator[tuple[str, str, list[str]]]:
    """Yield groups of messages: (the program that prints them, the heading, the messages)."""
    yield "The chart", "Values that do not go together, or that this cluster cannot run.", chart_messages()
    for part in PARTS:
        classes = error_classes(modules_of(part.folder, part.package), part.roots)
        sorts = {part.common: tuple(classes)} if part.common else {text: (name,) for name, text in classes.items()}
        for meaning, names in {**sorts, **part.lines}.items():
            told = {text for site in sites_of(part) if site.called in names for text in site.texts if has_words(text)}
            if told:
                yield part.who, meaning, sorted(told, key=lambda text: (text.startswith(UNKNOWN), text))


def document() -> str:
    """Return the text of docs/messages.md."""
    parts, last = [HEAD], ""
    for who, meaning, told in groups():
        if who != last:
            parts.append(f"## {who}\n")
            last = who
        rows = "".join(f"| {_cell(text)} |\n" for text in told)
        parts.append(f"### {meaning.rstrip('.')}\n\n| {' | '.join(COLUMNS)} |\n|---|---|\n{rows}")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """Split a message into its finding and its next step, for two table cells."""
    finding, _, step = text.rpartition("; ")
    return f"{_code(finding or step)} | {_code(step) if finding else ''}"


def _code(text: str) -> str:
    """Return the text as a code span for a table cell."""
    marks = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{marks}{space}{text}{space}{marks}".replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET}")
