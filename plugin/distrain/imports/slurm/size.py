"""Convert the size of a Slurm job: nodes, and the GPUs, CPUs and memory of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.secrets import quoting
from distrain.imports.slurm.header import SET, entries, shown
from distrain.imports.slurm.replaced import INSTEAD

UNITS = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}
# A number, as in 4, 2k, or 2-8; a number of nodes may also be a list, as in 1,3-5 or 1-15:4.
NUMBER = re.compile(
    r"(\d{1,9})([km]?)(?P<more>(?:-(?P<most>\d{1,9})(?P<unit>[km]?))?(?:[-,:][-\dkm,:]*)?)", re.IGNORECASE
)
MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)


def carry_size(draft: Draft) -> None:
    """Set the workers; raise ValuesError for an amount that is no whole number above 0."""
    total, per_node = _whole(draft, "ntasks"), _whole(draft, "ntasks-per-node")
    nodes, origin = _nodes(draft, total, per_node)
    if origin:
        draft.choose(("workers", "replicas"), nodes, origin)
        draft.know(("nodes",))
    else:
        draft.carry(("workers", "replicas"), nodes, ("nodes",))
    total = total or nodes
    tasks = per_node or max(1, total // nodes)
    is_even = bool(per_node) or total % nodes == 0
    gpus = _gpus(draft, nodes, tasks if is_even else total / nodes)
    if tasks not in (1, max(1, gpus)) or not is_even:
        found = f"ntasks-per-node: {tasks} on each node" if is_even else f"ntasks: {total} on {nodes} nodes"
        draft.note(f"{found}; distrain starts {max(1, gpus)} on each, one for each GPU, or one on CPUs")
    draft.know(("ntasks-per-node",), ("ntasks",), ("nodes",))
    cpus = tasks * _whole(draft, "cpus-per-task")
    if cpus:
        draft.carry(("workers", "cpu"), cpus, ("cpus-per-task",), why=f"times {tasks}" if tasks > 1 else "")
    _memory(draft, cpus or tasks, gpus)


def _nodes(draft: Draft, total: int, per_node: int) -> tuple[int, str]:
    """Return the number of nodes.

    If the script does not set this number, also return the options from which it is computed.
    """
    if draft.ledger.get(("nodes",)) is not None:
        return _whole(draft, "nodes"), ""
    if total and per_node:
        return -(-total // per_node), f"ntasks: {total}, ntasks-per-node: {per_node}"
    gpus, of_node = (sum(number for number, _ in _gpu_counts(draft, key)) for key in ("gpus", "gpus-per-node"))
    if gpus and of_node and gpus % of_node == 0:
        return gpus // of_node, f"gpus: {gpus}, gpus-per-node: {of_node}"
    if total > 1 or gpus > 1:
        draft.note("workers.replicas: the script names no number of nodes, and Slurm chose it; 1 is taken: set it")
    return 1, "the script names no number of nodes"


def _whole(draft: Draft, key: str) -> int:
    """Return the number that an option sets, or the lower end of a range of nodes such as 2-4; 0 without the option."""
    found = draft.ledger.get((key,))
    if found is None:
        return 0
    number = NUMBER.fullmatch(str(found))
    least = _thousands(number[1], number[2]) if number else 0
    if not number or least < 1 or (number["more"] and key != "nodes"):
        given = "has no value" if found == SET else f"is {quoting.value(found)}"
        words = f"{given}, but must be a whole number above 0; correct it"
        raise ValuesError(f"{_place(draft, key)}: {words}")
    if number["most"] and _thousands(number["most"], number["unit"]) < least:
        words = f"is {quoting.value(found)}, a range whose end is below its beginning; correct it there"
        raise ValuesError(f"{_place(draft, key)}: {words}")
    if number["more"]:
        draft.note(f"{key}: {quoting.value(found)} is a range; workers.replicas is its least, {least}")
    return least


def _thousands(digits: str, unit: str) -> int:
    return int(digits) * {"": 1, "k": 1024, "m": 1024**2}[unit.lower()]


def _place(draft: Draft, key: str) -> str:
    """Return the place of an option as text for messages: the source, the line number and the option's name."""
    line = next(entry.line for entry in reversed(entries(str(draft.ledger.get(("script",))), "")) if entry.name == key)
    return f"{draft.origin}: line {line}: #SBATCH --{key}"


def _gpus(draft: Draft, nodes: int, tasks: float) -> int:
    """Set the GPUs of a node from any of Slurm's options for GPUs."""
    for key, share in (("gpus-per-node", 1.0), ("gres", 1.0), ("gpus", 1 / nodes), ("gpus-per-task", tasks)):
        found = [*_gpu_counts(draft, key)]
        if not found:
            continue
        gpus = sum(number for number, _ in found) * share
        if abs(gpus - round(gpus)) > 1e-9:
            words = f"is {quoting.value(draft.ledger.get((key,)))}, so the GPUs of each of {nodes} nodes would"
            raise ValuesError(f"{_place(draft, key)}: {words} not be a whole number; ask for another number of GPUs")
        draft.carry(("workers", "gpus"), round(gpus), (key,))
        for _, kind in found:
            if kind:
                draft.drop(f"{key}: {quoting.value(kind)}", INSTEAD["gpu type"])
        return round(gpus)
    draft.choose(("workers", "gpus"), 0, "the script asks for no GPU")
    return 0


def _gpu_counts(draft: Draft, key: str) -> Iterator[tuple[int, str]]:
    """Yield number and type of the GPUs in a list such as gpu:a100:4,nvme:1; list other entries as left out."""
    for each in filter(None, str(draft.ledger.get((key,), "")).split(",")):
        kind, *rest = re.sub(r"\(.*?\)", "", each).split(":")
        if key == "gres" and kind.removeprefix("gres/") != "gpu":
            draft.drop(f"--{key}={quoting.value(each)}", INSTEAD["gres"])
            continue
        parts = rest if key == "gres" else [kind, *rest]
        if parts and parts[-1].startswith("-"):
            words = f"is {quoting.value(draft.ledger.get((key,)))}; write a whole number of GPUs there"
            raise ValuesError(f"{_place(draft, key)}: {words}")
        number = parts.pop() if parts and parts[-1].isdecimal() else "1"
        yield int(number), ":".join(parts)


def _memory(draft: Draft, cpus: int, gpus: int) -> None:
    for key, times in (("mem", 1), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        found = MEMORY.fullmatch(str(draft.ledger.get((key,), "")))
        if found and found[1] == "0":
            draft.drop(shown(key, "0"), "it is all memory of a node; set workers.memory")
            draft.know((key,))
        elif found and times:
            amount = f"{int(found[1]) * times}{UNITS[found[2].upper()]}"
            draft.carry(("workers", "memory"), amount, (key,), why=f"times {times}" if times > 1 else "")
            return
