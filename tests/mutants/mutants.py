"""Create the mutants of a part, and draw a random sample of them.

The same mutants are drawn each time. After an edit of a source file, other mutants of this file are drawn.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from lab.builds import tools
from lab.paths import CACHE_DIR, REPOSITORY
from tests.mutants import templates
from tests.mutants.parts import Part, files_of

LOCK = REPOSITORY / "requirements-mutants.txt"
OPERATORS = Path(__file__).parent / "operators.py"
SEED = 1
TEMPLATES = (".tpl", ".yaml")
# A named template in a chart file begins with this line.
DEFINE = re.compile(r"^\{\{-? define ", re.MULTILINE)
GUARDS = ((" *, ", " /, "), ("(*, ", "(/, "), ("strict=True", "strict=False"))


@dataclass(frozen=True)
class Mutant:
    """A source file with one change.

    `before` and `after` are the text of the changed lines. `line` is the number of the first changed line.
    """

    path: str
    line: int
    function: str
    before: str
    after: str
    content: str

    @cached_property
    def key(self) -> str:
        return digest(self.path, self.function, self.before, self.after)

    @cached_property
    def changed(self) -> str:
        """The text of the changed function or template.

        If the change is outside all functions, this is the whole source.
        """
        if self.path.endswith(TEMPLATES):
            return template_at(self.content, self.line)
        found = innermost(self.content, self.line)
        return "\n".join(self.content.splitlines()[found.lineno - 1 : found.end_lineno]) if found else self.content


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def drawn(part: Part) -> list[Mutant]:
    """Draw mutants of a part at random.

    A mutant's position in the random order depends only on the seed and on the mutant's source file.
    """
    found = [mutant for path in files_of(part.sources) for mutant in all_of(path)]
    found.sort(key=lambda mutant: digest(str(SEED), mutant.key, mutant.content))
    return found[: part.count]


def all_of(path: Path) -> list[Mutant]:
    source = (REPOSITORY / path).read_text("utf-8")
    contents = templates.mutants(source) if path.suffix in TEMPLATES else python_mutants(path, source)
    made = [mutant_of(str(path), source, content) for content in contents]
    return [mutant for mutant in made if not guards_programmers_only(mutant)]


def guards_programmers_only(mutant: Mutant) -> bool:
    """Tell whether a mutant only changes a guard against programming mistakes.

    No test can notice such a mutant as long as all calls in the code are correct.

    Such guards are `*` and `/` in a parameter list, and `strict=True` in a `zip` of arguments with equal lengths.
    """
    return any(mutant.before.replace(old, new) == mutant.after for old, new in GUARDS)


def python_mutants(path: Path, source: str) -> list[str]:
    """Return the mutants of a source from the cache. If the mutants are not in the cache, let Cosmic Ray create them.

    Cosmic Ray takes about a second for 50 lines of source.
    """
    kept = (
        CACHE_DIR / "bench-mutants" / "made" / f"{digest(OPERATORS.read_text('utf-8'), LOCK.read_text(), source)}.json"
    )
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = [str(tools.programs(LOCK) / "python"), str(OPERATORS), str(path)]
        kept.write_text(subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return list(json.loads(kept.read_text())[str(path)])


def mutant_of(path: str, source: str, content: str) -> Mutant:
    old, new = source.splitlines(), content.splitlines()
    first = next(
        (n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    same = 0
    while same < min(len(old), len(new)) - first and old[-1 - same] == new[-1 - same]:
        same += 1
    before, after = (" ".join(line.strip() for line in text[first : len(text) - same]) for text in (old, new))
    function = "" if path.endswith(TEMPLATES) else function_at(source, first + 1)
    return Mutant(path, first + 1, function, before, after, content)


def function_at(source: str, line: int) -> str:
    """Return the name of the function or class that contains a line, for example `Writer.close`."""
    return ".".join(node.name for node in holders(source, line))


def innermost(source: str, line: int) -> ast.FunctionDef | ast.ClassDef | None:
    """Return the innermost function that contains a line.

    If no function contains the line, return the class that contains it.
    """
    found = holders(source, line)
    return found[-1] if found else None


def holders(source: str, line: int) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the functions and classes that contain this line, from the outermost to the innermost."""
    found, nodes = [], [*parsed(source).body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            found.append(node)
            nodes = [*node.body]
    return found


@lru_cache(maxsize=1)
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def template_at(source: str, line: int) -> str:
    """Return the text of the named template that contains this line, from its `define` to the next `define`."""
    at = sum(len(each) for each in source.splitlines(keepends=True)[:line])
    starts = [0, *(found.start() for found in DEFINE.finditer(source)), len(source)]
    begin = max(start for start in starts if start < max(at, 1))
    return source[begin : min(start for start in starts if start > begin)]
