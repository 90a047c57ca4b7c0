"""Decide whether a job with rules between its pods is certain, possible, or neither."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from distrain.solver import bounds
from distrain.solver.bounds import Decision
from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.node_classes import Compact
from distrain.solver.pareto import Vector
from distrain.solver.search import Search

# A part of a job is looked at with a part of the budget.
PARTS = 4


def decide(question: Compact, budget: int) -> Decision:
    """Decide by sums over domains and nodes, and what these leave open by a search."""
    found = bounds.decide(question, budget)
    if found.certain is not None and found.possible is not None:
        return found
    try:
        return _searched(question, found, budget)
    except ExhaustedError:
        return found


def _searched(question: Compact, found: Decision, budget: int) -> Decision:
    search = Search(question, Budget(budget))
    ends = search.walks()
    stuck = found.certain is False or True in ends
    complete = found.possible or False in ends
    if stuck and not complete and any(_impossible(part, budget) for part in _parts(question)):
        return Decision(False, False)
    return Decision(not (stuck or search.reaches(stuck=True)), complete or search.reaches(stuck=False))


def _impossible(question: Compact, budget: int) -> bool:
    try:
        search = Search(question, Budget(budget // PARTS))
        return False not in search.walks() and not search.reaches(stuck=False)
    except ExhaustedError:
        return False


def _parts(question: Compact) -> Iterator[Compact]:
    """Yield the job without those of its roles that can only be in the way of the others."""
    parts = {_helpers(question, role) for role, count in enumerate(question.counts) if count}
    for roles in sorted(parts, key=sorted):
        counts: Vector = tuple(count if role in roles else 0 for role, count in enumerate(question.counts))
        if counts != question.counts:
            yield replace(question, counts=counts)


def _helpers(question: Compact, role: int) -> frozenset[int]:
    """Return the role, and those whose pods it may need: which its near and spread count, and what these need."""
    found = {role}
    while more := {
        other
        for helped in found
        for census in _helping(question, helped)
        for other in question.censuses[census].roles
        if question.counts[other] and other not in found
    }:
        found |= more
    return frozenset(found)


def _helping(question: Compact, role: int) -> list[int]:
    rules = question.rules[role]
    return [*(rules.near.censuses if rules.near else ()), *(rule.census for rule in rules.spread)]
