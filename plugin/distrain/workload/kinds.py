"""Read the facts about each kind of job from schemas/kinds.yaml, which explains every fact.

`make schema` copies the file to kinds.json, because the trainer's images have the plugin without the chart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from distrain import kube


class InitContainer(Struct, frozen=True):
    """A container that an operator adds to the pods of a role.

    If `beside` names another role, the operator adds the container only to jobs that also have that role.
    """

    name: str
    role: str
    flag: str
    requests: kube.Amounts
    limits: kube.Amounts
    beside: str = ""


class Port(Struct, frozen=True):
    name: str
    number: int


class Install(Struct, frozen=True):
    """The release of an operator that a user should install."""

    operator: str
    release: str
    url: str


class Ends(Struct, frozen=True):
    """The conditions that show that a job has finished."""

    succeeded: str
    failed: str


class Version(Struct, frozen=True, rename="camel"):
    """One API version of a kind, with the facts about the kind and about the first operator in `operators`."""

    kind: str
    name: str
    group: str
    operators: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    makes: dict[str, str] = field(default_factory=dict)
    container: str = ""
    port: Port | None = None
    init_container: InitContainer | None = None
    masters: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    varying: tuple[str, ...] = ()
    creates: dict[str, str] = field(default_factory=dict)
    drops_fields_since: str = ""
    keeps_launcher: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.name}"


class Kind(Struct, frozen=True, rename="camel"):
    """A kind of job. `roles` maps each role to its key in the replica specs of the job."""

    name: str
    roles: dict[str, str]
    ends: Ends
    versions: tuple[Version, ...]
    group: str = ""
    replicas: str = ""
    slots: str | int | None = None
    install: Install | None = None
    runs_one_version: bool = False
    leaves_failed_workers: bool = False
    live: tuple[str, ...] = ()
    size: tuple[str, ...] = ()

    @property
    def resource(self) -> str:
        """Return the name of the kind's resource in the API, as RBAC rules use it."""
        return f"{self.name.lower()}s"


class Facts(Struct, frozen=True):
    """The content of schemas/kinds.yaml.

    `choices` has the names of kinds by strategy and framework. `roles` has, for each role, the section of the chart's
    values.
    """

    choices: dict[str, dict[str, list[str]]]
    roles: dict[str, str]
    operators: dict[str, dict[str, Any]]
    kinds: list[dict[str, Any]]


FACTS = msgspec.json.decode(Path(__file__).with_name("kinds.json").read_bytes(), type=Facts)


def _kind(facts: dict[str, Any]) -> Kind:
    return msgspec.convert({**facts, "versions": [_version(facts, version) for version in facts["versions"]]}, Kind)


def _version(kind: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """Merge all facts about one API version of a kind.

    The facts come from three entries of kinds.yaml: the version, the kind, and the first operator in the version's list
    `operators`. A fact of the version overrides the kind's, which overrides the operator's.
    """
    operator = FACTS.operators[version["operators"][0]] if version["operators"] else {}
    return {**operator, **kind, **version, "kind": kind["name"]}


KINDS = tuple(map(_kind, FACTS.kinds))
# The kinds of jobs of the Kubeflow operators, by name. `Plain` is missing, because it uses only kinds that Kubernetes
# itself defines.
KUBEFLOW = {kind.name: kind for kind in KINDS if kind.versions}
[PLAIN] = (kind for kind in KINDS if not kind.versions)
VERSIONS = {(version.api_version, kind.name): version for kind in KUBEFLOW.values() for version in kind.versions}
# The init containers that operators add to pods, by container name.
INIT_CONTAINERS = {added.name: added for version in VERSIONS.values() if (added := version.init_container)}
GROUPS = tuple(dict.fromkeys(kind.group for kind in KUBEFLOW.values()))
# The value of this label is the name of the Kueue queue in which a job waits.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The chart's output depends on which versions of these API groups the cluster serves.
RENDERED_GROUPS = (*GROUPS, "monitoring.coreos.com")


def offers_servers(framework: str, slots: int | None = None) -> bool:
    """Tell whether the framework can use parameter servers, with this number of ranks per worker if it is given."""
    kinds = [KUBEFLOW[name] for name in FACTS.choices["parameter-server"].get(framework, ())]
    return any(slots is None or kind.slots in (None, slots) for kind in kinds)


def running(strategy: str) -> set[str]:
    """Return the names of the kinds that can run a strategy with at least one framework."""
    return {name for names in FACTS.choices[strategy].values() for name in names}
