"""Create mutants of the chart's templates from a short list of edits.

No mutation tool supports Helm templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ACTION = re.compile(r"\{\{(?!-?\s*/\*)-?\s*(.*?)\s*-?\}\}", re.DOTALL)
# Each edit is a regular expression and its replacement, and changes text inside `{{ }}`.
EDITS = (
    (r"\beq (?=[$.(\"\d])", "ne "),
    (r"\bne (?=[$.(\"\d])", "eq "),
    (r"\blt (?=[$.(\"\d])", "le "),
    (r"\ble (?=[$.(\"\d])", "lt "),
    (r"\bgt (?=[$.(\"\d])", "ge "),
    (r"\bge (?=[$.(\"\d])", "gt "),
    (r"\band (?=[$.(])", "or "),
    (r"\bor (?=[$.(])", "and "),
    (r"\bnot (?=[$.(])", ""),
    (r"\bhasKey (?=[$.(])", "not (hasKey) "),
    (r"(?<=if )([^}]+)$", r"not (\1)"),
    (r"(?<=with )([^}:]+)$", r"(and false (\1))"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"(?<=[ (])(\d+)(?=[ )]|$)", r"(add 1 \1)"),
    (r"\badd\b", "sub"),
    (r"\bsub\b", "add"),
    (r"\bmul\b", "add"),
    (r"\bceil\b", "floor"),
    (r"\bmax\b", "min"),
    (r"\bmin\b", "max"),
)
# Some mutants lack a whole line of the template: a field, or an action that neither begins nor ends a block.
FIELD = re.compile(r"^ *(- )?[\w./-]+: *\S.*\n", re.MULTILINE)
LINE = re.compile(r"^ *\{\{-? (?!define|end|if|else|with|range|/\*)[^\n]*\}\}\n", re.MULTILINE)
COMMENT = re.compile(r"\{\{-? */\*.*?\*/ *-?\}\}", re.DOTALL)


def mutants(source: str) -> list[str]:
    return sorted({*in_actions(source), *without_lines(source)} - {source})


def in_actions(source: str) -> Iterator[str]:
    for action in ACTION.finditer(source):
        start, end = action.span(1)
        for pattern, text in EDITS:
            for found in re.finditer(pattern, action[1]):
                changed = action[1][: found.start()] + found.expand(text) + action[1][found.end() :]
                yield source[:start] + changed + source[end:]


def without_lines(source: str) -> Iterator[str]:
    comments = [found.span() for found in COMMENT.finditer(source)]
    for found in [*FIELD.finditer(source), *LINE.finditer(source)]:
        if not any(start <= found.start() < end for start, end in comments):
            yield source[: found.start()] + source[found.end() :]
