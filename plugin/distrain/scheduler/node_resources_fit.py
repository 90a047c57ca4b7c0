"""NodeResourcesFit: find the resources that a node lacks for one more pod."""

from __future__ import annotations

from distrain.scheduler.messages import TOO_MANY_PODS
from distrain.solver.capacity import copies
from distrain.solver.problem import Node, Role
from distrain.solver.reduce import asked


def insufficient(node: Node, role: Role) -> list[str]:
    """Place as many pods as fit; then return a message for each resource that is too small for one more pod."""
    held = copies(node, role)
    short = [name for name, amount in asked(role) if node.free.get(name, 0) - held * amount < amount]
    return [TOO_MANY_PODS if name == "pods" else f"Insufficient {name}" for name in short]
