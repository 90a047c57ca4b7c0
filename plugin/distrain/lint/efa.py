"""Warn if variables for EFA are set in workers that have no EFA interface."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.lint.subject import EFA, Subject, ValueWarning, Variable


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    """Yield a warning only for the first variable, because the other variables have the same cause."""
    if EFA in subject.requests or subject.has_claims:
        return
    found = [variable for name, variable in subject.variables.items() if _is_for_efa(name, variable)]
    if not found:
        return
    interfaces = subject.most(EFA)
    better = f"set workers.resources.limits to {{{EFA}: {interfaces or 'N'}}}, or remove the variable"
    if subject.nodes and not interfaces:
        better = "remove the variable: no node offers such an interface"
    yield ValueWarning(found[0].path, f"is {found[0].value}, but the workers ask for no EFA interface", better)


def _is_for_efa(name: str, variable: Variable) -> bool:
    return name.startswith("FI_EFA_") or (name == "FI_PROVIDER" and variable.value == "efa")
