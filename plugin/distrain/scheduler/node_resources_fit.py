"""NodeResourcesFit: find the resources that a node lacks for one more pod.

Host ports and attachable volumes are treated as resources, too. The scheduler checks ports before NodeResourcesFit, and
volumes after it.
"""

from __future__ import annotations

from distrain.scheduler import node_ports, node_volume_limits
from distrain.scheduler.messages import NO_FREE_PORTS, TOO_MANY_PODS, TOO_MANY_VOLUMES
from distrain.solver.capacity import copies
from distrain.solver.problem import Node, Role
from distrain.solver.reduce import asked


def insufficient(node: Node, role: Role) -> list[str]:
    """Place as many pods as fit. Then return the messages of the first filter that refuses one more pod."""
    held = copies(node, role)
    short = [name for name, amount in asked(role) if node.free.get(name, 0) - held * amount < amount]
    if any(name.startswith(node_ports.PREFIX) for name in short):
        return [NO_FREE_PORTS]
    resources = [name for name in short if not name.startswith(node_volume_limits.PREFIX)]
    if short and not resources:
        return [TOO_MANY_VOLUMES]
    return [TOO_MANY_PODS if name == "pods" else f"Insufficient {name}" for name in resources]
