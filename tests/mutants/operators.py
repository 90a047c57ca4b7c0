"""Print the mutants of Python files as JSON.

The program runs in Cosmic Ray's Python environment, without the project's modules.

Cosmic Ray mutates operators, comparisons, conditions, loops and decorators. This module adds four kinds of mutants. In
these, a condition is always true or false, a statement is removed, an exception is no longer caught, or a number is
changed.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# Cosmic Ray would try eleven other operators in place of a `+`, and seven in place of a `<`. One or two of them are
# enough to find out whether a test notices the change.
BINARY = {
    "Add_Sub",
    "Sub_Add",
    "Mul_Div",
    "Div_Mul",
    "FloorDiv_Mul",
    "Mod_Mul",
    "Pow_Mul",
    "BitOr_BitAnd",
    "BitAnd_BitOr",
}
COMPARISON = {"Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_Gt", "Gt_Lt", "Is_IsNot", "IsNot_Is"}
# VariableReplacer and VariableInserter cannot run without arguments. ExceptionReplacer crashes on `except
# json.JSONDecodeError`. NumberReplacer would also add one to large numbers of seconds or bytes, which no test needs to
# notice.
LEFT_OUT = {"VariableReplacer", "VariableInserter", "ExceptionReplacer", "NumberReplacer"}
LARGEST_COUNT = 16


def main(paths: list[str]) -> None:
    print(json.dumps({path: sorted(mutants(Path(path).read_text("utf-8"))) for path in paths}))


def mutants(source: str) -> set[str]:
    """Return the mutants of a source that are valid Python and whose executed code differs from that of the source."""
    before = executed(source)
    made = {*by_operators(source), *by_edits(source)}
    return {mutant for mutant in made if executed(mutant) not in ("", before)}


def by_operators(source: str) -> Iterator[str]:
    for name in operator_names():
        kind = name.partition("/")[2]
        _, _, pair = kind.partition("Operator_")
        if kind in LEFT_OUT or (pair and pair not in BINARY | COMPARISON and "Unary" not in kind):
            continue
        for occurrence in count():
            mutant = mutate_code(source, get_operator(name)(), occurrence)
            if mutant is None:
                break
            yield mutant


def by_edits(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield replaced(source, node.test, "True")
            yield replaced(source, node.test, "False")
        if isinstance(node, ast.Expr | ast.Raise | ast.AugAssign) and not is_text(node):
            yield replaced(source, node, "pass")
        if isinstance(node, ast.ExceptHandler) and node.type:
            yield replaced(source, node.type, "ZeroDivisionError")
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            yield from (replaced(source, node, repr(number)) for number in other_numbers(node.value))


def other_numbers(number: float) -> list[float]:
    if isinstance(number, int) and number <= LARGEST_COUNT:
        return [number + 1, *([number - 1] if number else [])]
    return [2 * number or 1.0]


def replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
    content = source.encode()
    return (content[:start] + text.encode() + content[end:]).decode()


def executed(source: str) -> str:
    """Return the part of a source that is executed: without annotations and docstrings.

    Return "" if the source is not valid Python.
    """
    try:
        tree = ast.parse(source)
        compile(source, "mutant", "exec")
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        # The decorators of classes are removed before the comparison: frozen=True only guards against programming
        # mistakes.
        if isinstance(node, ast.ClassDef):
            node.decorator_list, node.keywords = [], []
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [each for each in node.body if not is_text(each)] or [ast.Pass()]
    return ast.dump(tree)


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    main(sys.argv[1:])
