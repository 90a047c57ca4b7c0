"""Decide whether a job with rules between its pods is certain to fit, can fit, or cannot fit."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from distrain.solver import bounds
from distrain.solver.bounds import Decision
from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.node_classes import Problem
from distrain.solver.pareto import Vector
from distrain.solver.search import Search

# The search with all pods gets 1/ALL of the budget. Each search with the pods of only some roles gets 1/PARTS of the
# budget.
ALL, PARTS = 3, 12


def decide(problem: Problem, budget: Budget) -> Decision:
    """First decide as much as possible with the bounds, which need no search.

    Then search for the answers that are still undecided.
    """
    found = bounds.decide(problem, budget)
    if found.certain is not None and found.possible is not None:
        return found
    try:
        return _searched(problem, found, budget)
    except ExhaustedError:
        return found


def _searched(problem: Problem, found: Decision, budget: Budget) -> Decision:
    search = Search(problem, budget.part(ALL))
    ends = search.walks()
    stuck = found.certain is False or True in ends
    complete = found.possible or False in ends
    if stuck and not complete and any(_impossible(part, budget) for part in _parts(problem)):
        return Decision(False, False)
    return Decision(not (stuck or search.reaches(stuck=True)), complete or search.reaches(stuck=False))


def _impossible(problem: Problem, budget: Budget) -> bool:
    try:
        search = Search(problem, budget.part(PARTS))
        return False not in search.walks() and not search.reaches(stuck=False)
    except ExhaustedError:
        return False


def _parts(problem: Problem) -> Iterator[Problem]:
    """For each role, yield a smaller problem with only this role and the roles that its rules need (see _helpers)."""
    parts = {_helpers(problem, role) for role, count in enumerate(problem.counts) if count}
    for roles in sorted(parts, key=sorted):
        counts: Vector = tuple(count if role in roles else 0 for role, count in enumerate(problem.counts))
        if counts != problem.counts:
            yield replace(problem, counts=counts)


def _helpers(problem: Problem, role: int) -> frozenset[int]:
    """Return the role, the roles that its affinity and spread rules count, the roles that these count, and so on."""
    found = {role}
    while more := {
        other
        for helped in found
        for census in _helping(problem, helped)
        for other in problem.censuses[census].roles
        if problem.counts[other] and other not in found
    }:
        found |= more
    return frozenset(found)


def _helping(problem: Problem, role: int) -> list[int]:
    rules = problem.rules[role]
    return [*(rules.affinity.censuses if rules.affinity else ()), *(rule.census for rule in rules.spread)]
