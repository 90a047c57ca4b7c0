"""Create the nodes that --assume-nodes describes: nodes that an autoscaler would add."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distrain import kube
from distrain.admission.validation import names
from distrain.errors import ValuesError
from distrain.instances import table
from distrain.instances.nodes import amounts
from distrain.kube.quantities import thousandths

FLAG = "--assume-nodes"
FORM = re.compile(r"(?P<count>\d{1,5})x(?:(?P<gpus>\d{1,4})|(?P<type>[A-Za-z][\w.-]*))(?::(?P<pairs>.+))?", re.ASCII)
HUGE = "hugepages-"
# Kubernetes defines the labels of this domain; no device plugin offers resources of this domain.
OWN_DOMAIN = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")
AMOUNTS = ("cpu", "memory", "ephemeral-storage", "pods")
# These default amounts are larger than any job needs. They are used for resources that the description of the nodes
# does not name.
ENOUGH: kube.Amounts = {"cpu": 10**9, "memory": 2**60, "ephemeral-storage": 2**60, "pods": 110}
EXAMPLE = "write NODESxGPUS, such as 4x8 or 4x8:cpu=96,memory=1Ti,pool=gpu, or NODESxTYPE, such as 4xp5.48xlarge"


def assumed_nodes(descriptions: Sequence[str], gpu_resource: str) -> list[kube.Node]:
    """Return the nodes that the descriptions mention; raise ValuesError if a description is malformed."""
    named = enumerate(descriptions, start=1)
    return [node for number, words in named for node in _nodes(words, f"assumed-{number}", gpu_resource)]


def _nodes(words: str, name: str, gpu_resource: str) -> list[kube.Node]:
    found = FORM.fullmatch(words)
    if not found:
        raise ValuesError(f"{FLAG}: {words} does not describe nodes; {EXAMPLE}")
    allocatable: kube.Amounts = {**ENOUGH, gpu_resource: int(found["gpus"] or 0)}
    labels = {}
    if found["type"]:
        instance = table.find(found["type"], FLAG)
        allocatable, labels = amounts(instance, efa=bool(instance.efa)), {**instance.labels}
    for pair in (found["pairs"] or "").split(",") if found["pairs"] else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValuesError(f"{FLAG}: {pair} in {words} has no value; {EXAMPLE}")
        if key == gpu_resource:
            raise ValuesError(f"{FLAG}: {words}: the number before the colon already sets {key}; {EXAMPLE}")
        if key in AMOUNTS or key.startswith(HUGE) or _is_device(key, value):
            allocatable[key] = _amount(value, words)
        if key not in AMOUNTS and not key.startswith(HUGE):
            labels[key] = _label(key, value, words)
    return [_node(f"{name}-{number}", labels, allocatable) for number in range(1, int(found["count"]) + 1)]


def _node(name: str, labels: dict[str, str], allocatable: kube.Amounts) -> kube.Node:
    given = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return kube.Node(kube.Metadata(name, labels={**given, **labels}), status=kube.NodeStatus(allocatable))


def _is_device(key: str, value: str) -> bool:
    """Tell whether a pair `key=value` may be the amount of a device plugin's resource.

    The node gets such a pair also as a label, because a label's value can be a number, too.
    """
    domain, slash, _ = key.partition("/")
    return bool(slash and value.isdecimal() and not OWN_DOMAIN.search(domain))


def _amount(value: str, words: str) -> str:
    try:
        amount = thousandths(value)
    except ValueError as error:
        raise ValuesError(f"{FLAG}: {words}: {error}; {EXAMPLE}") from error
    if amount < 0:
        raise ValuesError(f"{FLAG}: {words}: a node cannot have {value}; {EXAMPLE}")
    return value


def _label(key: str, value: str, words: str) -> str:
    # Imported here, because only a wrong description needs it.
    from difflib import get_close_matches

    if close := get_close_matches(key, AMOUNTS, n=1, cutoff=0.8):
        raise ValuesError(f"{FLAG}: {words}: {key} would be read as a node label; did you mean {close[0]}?")
    if names.qualified_name(key) or names.label_value(value):
        raise ValuesError(f"{FLAG}: {words}: no node can have the label {key}={value}; {EXAMPLE}")
    return value
