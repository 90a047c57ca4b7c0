"""Turn a container's requests and limits into a role's cpu, memory, GPUs and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting
from distrain.kube import quantities

# Forms that the schema accepts: one for workers.cpu, one for workers.memory, and one for the amounts of
# resources.requests and resources.limits.
CPU = re.compile(r"[0-9]+([.][0-9]+)?m?")
MEMORY = re.compile(r"[1-9][0-9]*([.][0-9]+)?([kMGT]|[KMGT]i)?")
AMOUNT = re.compile(r"[0-9]+([.][0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?")
# Resource names of whole accelerators: NVIDIA, AMD and Intel GPUs, MIG slices, Gaudi, Trainium, TPU, Ascend.
GPU = re.compile(r"gpu|^nvidia\.com/mig-|^habana\.ai/|neuron|/tpu$|ascend|/npu$|/mlu|/dcu", re.IGNORECASE)
# Resource names of shares of a GPU, which device plugins for shared GPUs offer: aliyun.com/gpu-mem,
# nvidia.com/gpucores.
SHARE = re.compile(r"gpu-?(mem|core|percent)", re.IGNORECASE)
NVIDIA = "nvidia.com/gpu"


def carry_resources(draft: Draft, section: str, path: Path) -> None:
    """Set cpu, memory, GPUs and resources of a section from the resources of the container at this path.

    Raises ValuesError if the number of GPUs is not a whole number.
    """
    found = {kind: draft.ledger.get((*path, kind), {}) for kind in ("limits", "requests")}
    if not all(isinstance(amounts, dict) for amounts in found.values()):
        return
    gpu = _carry_gpus(draft, path, found) if section == "workers" else ""
    for name in dict.fromkeys([*found["requests"], *found["limits"]]):
        if name == gpu:
            continue
        if name in ("cpu", "memory"):
            _carry_usual(draft, section, path, found, name)
        else:
            _carry_other(draft, section, path, found, name)
    if claims := draft.ledger.get((*path, "claims")):
        draft.carry((section, "resources", "claims"), claims, (*path, "claims"))


def gpus_of(limits: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the resources that are GPUs, NVIDIA's first."""
    names = [name for name in limits if "/" in name and GPU.search(name) and not SHARE.search(name)]
    yield from sorted(names, key=lambda name: name != NVIDIA)


def _carry_gpus(draft: Draft, path: Path, found: dict[str, dict[str, Any]]) -> str:
    names = [*gpus_of({**found["limits"], **found["requests"]})]
    name = names[0] if names else ""
    if not name:
        draft.choose(("workers", "gpus"), 0, "the source asks for no GPU")
        return ""
    paths = [(*path, kind, name) for kind in found if name in found[kind]]
    gpus, *others = [_whole(draft, place) for place in paths]
    if others and others != [gpus]:
        draft.lose(
            paths.pop(), f"Kubernetes refuses a request that is not the limit, {gpus}; workers.gpus is the limit"
        )
    draft.carry(("workers", "gpus"), gpus, *paths)
    if name != NVIDIA:
        draft.carry(("workers", "gpuResource"), name, *paths)
    if len(names) > 1:
        draft.note(
            f"{', '.join(map(quoting.key, names))}: workers.gpus counts {quoting.key(name)}; the others are "
            f"in workers.resources, without ranks"
        )
    return name


def _whole(draft: Draft, path: Path) -> int:
    """Return a number of GPUs; raise ValuesError if it is not a whole number."""
    amount = draft.ledger.get(path)
    try:
        number, rest = divmod(quantities.thousandths(amount), 1000)
    except ValueError:
        number, rest = 0, 1
    if rest or number < 0:
        raise draft.refuse(
            path, f"is {quoting.value(amount)}, but the GPUs of a worker must be a whole number; correct it"
        )
    return number


def _carry_usual(draft: Draft, section: str, path: Path, found: dict[str, dict[str, Any]], name: str) -> None:
    """Set a role's cpu or memory: the short key (workers.memory) if it is enough, otherwise requests and limits."""
    request, limit = found["requests"].get(name), found["limits"].get(name)
    paths = {kind: (*path, kind, name) for kind in found if name in found[kind]}
    pattern = CPU if name == "cpu" else MEMORY
    both = request if request is not None else limit
    is_short = bool(pattern.fullmatch(str(both))) and str(both) not in ("0", "0m")
    if name == "cpu" and is_short:
        draft.carry((section, "cpu"), _number(both), paths.get("requests", paths.get("limits", path)))
    elif name == "memory" and is_short and limit is not None and _equal(both, limit):
        draft.carry((section, "memory"), both, *paths.values())
        return
    elif request is not None:
        draft.carry((section, "resources", "requests", name), _amount(request), paths["requests"])
    if limit is not None:
        draft.carry((section, "resources", "limits", name), _amount(limit), paths["limits"])


def _carry_other(draft: Draft, section: str, path: Path, found: dict[str, dict[str, Any]], name: str) -> None:
    is_device = "/" in name or name.startswith("hugepages-")
    if is_device:
        # Kubernetes overcommits neither devices nor huge pages, so their requests always equal their limits.
        kinds = [kind for kind in ("limits", "requests") if name in found[kind]]
        value = _amount(found[kinds[0]][name])
        if not all(_equal(found[kind][name], value) for kind in kinds):
            draft.lose(
                (*path, kinds.pop(), name),
                f"Kubernetes refuses a request that is not the limit, {quoting.value(value)}",
            )
        draft.carry((section, "resources", "limits", name), value, *((*path, kind, name) for kind in kinds))
        return
    for kind in found:
        if name in found[kind]:
            draft.carry((section, "resources", kind, name), _amount(found[kind][name]), (*path, kind, name))


def _equal(one: Any, other: Any) -> bool:
    try:
        return quantities.thousandths(one) == quantities.thousandths(other)
    except ValueError:
        return False


def _number(amount: Any) -> Any:
    """Convert an amount of CPUs such as "4" to a number; return any other amount, such as "500m", unchanged.

    In a values file, users write the amount as a number.
    """
    return int(amount) if isinstance(amount, str) and amount.isdecimal() else amount


def _amount(amount: Any) -> Any:
    """Return an amount in a form that the schema accepts; Kubernetes also accepts 1e9 and 100n."""
    if not isinstance(amount, str) or AMOUNT.fullmatch(amount):
        return _number(amount)
    try:
        return max(1, quantities.thousandths(amount) // 1000)
    except ValueError:
        return amount
