"""Find the texts that a Python expression can evaluate to, without running it.

An unknown part of a text is shown as `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path

UNKNOWN = "…"
FUNCTION = re.compile(r"^\s*def (\w+)\(", re.MULTILINE)
# If a part of a text has more than MOST alternatives, `…` replaces this part.
MOST = 20
DEEPEST = 6
# These functions return the items of their first argument unchanged, so look for texts in these items.
OF_ITEMS = ("fromkeys", "islice", "list", "sorted", "tuple")
# The function of distrain.errors that returns the cause of an error, often in the words of the operating system.
CAUSE = "reason"


@dataclass
class Module:
    """A parsed module.

    `calls` pairs each call with the function that contains the call. `functions` maps a name to the functions and
    methods with this name. `imports` maps an imported name to its module and original name.
    """

    classes: list[ast.ClassDef] = field(default_factory=list)
    calls: list[tuple[ast.Call, ast.FunctionDef | None]] = field(default_factory=list)
    functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Caches the texts that a function can return, by the function's name.
    returned: dict[str, list[str]] = field(default_factory=dict)


class Modules:
    """Modules by dotted name. Each module is parsed at its first use, because parsing all of them takes seconds."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        names = {".".join(path.relative_to(folder).with_suffix("").parts): path for path in paths}
        self._texts = {name: path.read_text(encoding="utf-8") for name, path in names.items()}
        self._parsed: dict[str, Module] = {}
        self._owners: dict[str, set[str]] = {}
        for name, text in self._texts.items():
            for function in FUNCTION.findall(text):
                self._owners.setdefault(function, set()).add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __getitem__(self, name: str) -> Module:
        if name not in self._parsed:
            self._parsed[name] = _module(self._texts[name])
        return self._parsed[name]

    def matching(self, pattern: str) -> dict[str, Module]:
        """Return the modules whose source matches the pattern."""
        return {name: self[name] for name, text in self._texts.items() if re.search(pattern, text)}

    def owner(self, function: str) -> str | None:
        """Return the only module that defines a function or method of this name.

        Return None if there is no such module, or more than one.
        """
        owners = self._owners.get(function, set())
        return next(iter(owners)) if len(owners) == 1 else None


def _module(text: str) -> Module:
    found, tree = Module(), ast.parse(text)
    for statement in tree.body:
        found.constants |= dict(_assigned(statement))
    _note(tree, None, found)
    return found


def _note(node: ast.AST, function: ast.FunctionDef | None, found: Module) -> None:
    """Record the calls, functions and imports in the syntax tree below this node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            found.functions.setdefault(child.name, []).append(child)
            _note(child, child, found)
            continue
        if isinstance(child, ast.ClassDef):
            found.classes.append(child)
        elif isinstance(child, ast.ImportFrom) and child.module:
            found.imports |= {alias.asname or alias.name: (child.module, alias.name) for alias in child.names}
        elif isinstance(child, ast.Call):
            found.calls.append((child, function))
        elif isinstance(child, (ast.Constant, ast.Name)):
            continue
        _note(child, function, found)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a statement assigns, and the expression assigned to it."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
        yield node.target.id, node.iter  # all_texts then looks for texts in the items of node.iter
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(each, part)


@dataclass(frozen=True)
class Scope:
    """The place of an expression in the code: its module, and the function that contains it (None at module level)."""

    modules: Modules
    module: str
    function: ast.FunctionDef | None
    depth: int = 0

    def within(self, module: str, function: ast.FunctionDef | None) -> Scope:
        return Scope(self.modules, module, function, self.depth + 1)


def texts(node: ast.expr, scope: Scope) -> list[str]:
    """Return at most MOST different texts that the expression can evaluate to."""
    found = list(dict.fromkeys(_texts(node, scope)))
    return found if 0 < len(found) <= MOST else [UNKNOWN]


def all_texts(node: ast.expr, scope: Scope) -> list[str]:
    """Return the texts that the expression can evaluate to.

    If it evaluates to a list or generator, return the texts of the items.
    """
    if isinstance(node, ast.Starred):
        return all_texts(node.value, scope)
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return all_texts(node.elt, scope)
    return list(dict.fromkeys(_texts(node, scope))) or [UNKNOWN]


def _texts(node: ast.expr, scope: Scope) -> Iterable[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return _joined([texts(part, scope) for part in parts])
        case ast.FormattedValue(value=value, format_spec=None):
            return _within_text(texts(value, scope))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [first + second for first, second in product(texts(left, scope), texts(right, scope))]
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, scope), *_texts(other, scope)]
        case ast.BoolOp(values=values):
            return [text for value in values for text in _texts(value, scope)]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [text for item in items for text in all_texts(item, scope)]
        case ast.Name(id=name):
            return _named(name, scope)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[items, *_]) if name in OF_ITEMS:
            return all_texts(items, scope)
        case ast.Call(func=ast.Name(id=name)) if name == CAUSE:
            return [UNKNOWN]
        case ast.Call(func=ast.Attribute(value=text, attr="rstrip" | "removesuffix")):
            return _texts(text, scope)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _returned(name, scope)
    return [UNKNOWN]


def _within_text(found: list[str]) -> list[str]:
    """Return the possible texts for one part of a message.

    If all of them are single words, such as `line` and `lines`, return only UNKNOWN.
    """
    return found if len(found) == 1 or any(" " in text.strip() for text in found) else [UNKNOWN]


def _joined(parts: list[list[str]]) -> list[str]:
    """Return all texts that arise when one alternative is chosen for each part and the parts are joined.

    If there are more than MOST such texts, replace each part that has alternatives by UNKNOWN.
    """
    if prod(map(len, parts)) > MOST:
        parts = [part if len(part) == 1 else [UNKNOWN] for part in parts]
    return ["".join(each) for each in product(*parts)]


def _named(name: str, scope: Scope) -> Iterable[str]:
    if scope.depth > DEEPEST:
        return [UNKNOWN]
    within = ast.walk(scope.function) if scope.function else ()
    values = [value for node in within for each, value in _assigned(node) if each == name]
    if values:
        return [text for value in values for text in all_texts(value, scope.within(scope.module, scope.function))]
    module, original = _home(name, scope)
    if module is None or original not in scope.modules[module].constants:
        return [UNKNOWN]
    return _texts(scope.modules[module].constants[original], scope.within(module, None))


def _returned(name: str, scope: Scope) -> Iterable[str]:
    """Return the texts that a function or method of these modules can return or yield."""
    module, original = _home(name, scope)
    functions = scope.modules[module].functions.get(original, []) if module else []
    if not functions or scope.depth > DEEPEST:
        return [UNKNOWN]
    known = scope.modules[str(module)].returned
    if original not in known:
        known[original] = [UNKNOWN]  # If the function calls itself, the recursion ends here.
        known[original] = [
            text
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None
            for text in all_texts(node.value, scope.within(str(module), function))
        ]
    return known[original]


def _home(name: str, scope: Scope) -> tuple[str | None, str]:
    """Return the module that defines a name, and the original name there if the import renames it.

    For a method, return the module only if no other module defines a method of the same name.
    """
    own = scope.modules[scope.module]
    if name in own.functions or name in own.constants:
        return scope.module, name
    module, original = own.imports.get(name, ("", name))
    if module in scope.modules:
        return module, original
    return scope.modules.owner(name), name
