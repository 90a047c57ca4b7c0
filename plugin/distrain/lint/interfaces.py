"""Warn if a variable names a network interface that the workers do not have.

A pod has the interfaces lo and eth0, and those that its annotations for secondary networks add. Multus names these
interfaces net1, net2 and so on. GKE uses the names in the annotation. If the pods use the node's network, their
interfaces are unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from distrain.lint.subject import Subject, ValueWarning, Variable

MULTUS, GKE = "k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces"
# NCCL reads the value as a list of prefixes of interface names. If `=` precedes the list, the names are full names; if
# `^` precedes it, the interfaces are excluded.
NAMES = re.compile(r"_IFNAME$")


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    if subject.on_host_network:
        return
    known = interfaces(subject)
    for variable in _variables(subject):
        named = [name.strip() for name in variable.value.lstrip("=").split(",")]
        if not variable.value.startswith("^") and not any(_is_known(name, known) for name in named):
            found = f"is {variable.value}, but the workers have {', '.join(sorted(known))}"
            yield ValueWarning(variable.path, found, "set it to eth0, the pods' own network, or leave it out")


def _variables(subject: Subject) -> Iterator[Variable]:
    if interface := subject.section("network").get("interface"):
        yield Variable("network.interface", str(interface))
    yield from (variable for name, variable in subject.variables.items() if NAMES.search(name))


def _is_known(name: str, known: set[str]) -> bool:
    return bool(name) and any(interface.startswith(name) for interface in known)


def interfaces(subject: Subject) -> set[str]:
    """Return the names of the workers' network interfaces."""
    annotations = subject.workers.annotations
    return {"lo", "eth0", *_of_multus(annotations), *_of_gke(annotations)}


def _of_multus(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the interface names in Multus' annotation: `network@name,network@name`, or a JSON list.

    If an entry names no interface, Multus names the interface after the entry's position: net1, net2 and so on.
    """
    text = annotations.get(MULTUS, "")
    entries = _json(text) if text.lstrip().startswith("[") else [each for each in text.split(",") if each.strip()]
    for number, entry in enumerate(entries, start=1):
        name = entry.get("interface") if isinstance(entry, dict) else str(entry).partition("@")[2].strip()
        yield str(name or f"net{number}")


def _of_gke(annotations: Mapping[str, str]) -> Iterator[str]:
    entries = _json(annotations.get(GKE, "[]"))
    yield from (
        str(entry["interfaceName"]) for entry in entries if isinstance(entry, dict) and "interfaceName" in entry
    )


def _json(text: str) -> list[object]:
    """Return the JSON list that a text contains, or an empty list if the text is not a JSON list."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []
