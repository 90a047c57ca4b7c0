"""Read the table of instance types: instances.json, which names the sources of its figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from distrain.errors import ValuesError

FLAG = "--instance"
EKS, GKE, AKS = "eks", "gke", "aks"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ACCELERATOR = "cloud.google.com/gke-accelerator"


class Instance(Struct, frozen=True, rename="camel"):
    """An instance type: its GPUs with the memory of each in GB, CPUs, memory in GiB, and network in Gb/s.

    `efa` and `infiniband` are the numbers of the type's interfaces to these networks. `accelerator` is the name that
    GKE gives to these GPUs. The run's pods without GPUs run on types without GPUs.
    """

    type: str
    gpus: int
    gpu: str
    gpu_memory: int
    cpus: int
    memory: int
    network: int
    efa: int = 0
    infiniband: int = 0
    accelerator: str = ""
    provider: str = ""
    gpu_resource: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that the provider gives each node of this type."""
        labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", INSTANCE_TYPE: self.type}
        return {**labels, ACCELERATOR: self.accelerator} if self.accelerator else labels


class _Provider(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    gpu_resource: str
    date: str
    sources: list[str]
    note: str
    instances: list[Instance]


@cache
def _table() -> dict[str, _Provider]:
    return msgspec.json.decode(Path(__file__).with_name("instances.json").read_bytes(), type=dict[str, _Provider])


def provider_name(provider: str) -> str:
    return _table()[provider].name


@cache
def all_of(provider: str) -> tuple[Instance, ...]:
    """Return the types of a provider in the order of the table.

    Types whose GPUs support bfloat16 come first, then types with older GPUs, then types without GPUs. For each kind of
    GPU, the smallest type comes first.
    """
    found = _table()[provider]
    facts = {"provider": provider, "gpu_resource": found.gpu_resource}
    return tuple(msgspec.structs.replace(each, **facts) for each in found.instances)


def with_gpus(provider: str) -> list[Instance]:
    return [each for each in all_of(provider) if each.gpus]


def without_gpus(provider: str) -> list[Instance]:
    return [each for each in all_of(provider) if not each.gpus]


def is_known(name: str) -> bool:
    """Tell whether the table has this type, with or without GPUs."""
    return any(each.type == name for key in _table() for each in all_of(key))


def find(name: str, flag: str = FLAG, provider: str | None = None) -> Instance:
    """Return the type of GPU machines with this name.

    Raise ValuesError, with the flag's name, if the table lacks the type, or if it belongs to another provider.
    """
    every = [each for key in _table() for each in with_gpus(key)]
    found = next((each for each in every if each.type == name), None)
    if found and provider in (None, found.provider):
        return found
    if found and provider:
        own = [each.type for each in with_gpus(provider)]
        words = f"is a type of {provider_name(found.provider)}, not of {provider_name(provider)}"
        raise ValuesError(f"{flag}: {name} {words}; name one of {', '.join(own)}, or set --provider {found.provider}")
    raise ValuesError(f"{flag}: distrain knows no instance type {name} with GPUs; {_meant(name, provider)}")


def _meant(name: str, provider: str | None) -> str:
    # Imported only here, because most runs do not need this module.
    from difflib import get_close_matches

    own = [[each.type for each in with_gpus(key)] for key in ([provider] if provider else _table())]
    types = [each for found in own for each in found]
    close = [each for each in types if each.lower().startswith(name.lower())]
    if close := close or ([] if is_known(name) else get_close_matches(name, types, n=1)):
        return f"did you mean {close[0]}?"
    instances = [each for key in ([provider] if provider else _table()) for each in with_gpus(key)]
    if named := [each for each in instances if each.gpu.lower() == name.lower()]:
        return f"for {named[0].gpu} GPUs give one of {', '.join(each.type for each in named)}"
    kinds: dict[str, str] = {}
    for each in instances:
        kinds.setdefault(each.gpu, each.type)
    return f"name a type such as {', '.join(f'{first} ({gpu})' for gpu, first in kinds.items())}"
