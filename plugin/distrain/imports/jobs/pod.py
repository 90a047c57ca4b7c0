"""Read a pod template of a job: each field becomes a value of the role, or is reported as not imported."""

from __future__ import annotations

from typing import Any

from distrain.imports.draft import Draft, Part
from distrain.imports.jobs import volumes
from distrain.imports.jobs.resources import carry_resources
from distrain.imports.ledger import Path

# Fields of a pod that the chart accepts as keys of a role's podSpec.
POD_SPEC = (
    *("dnsConfig", "dnsPolicy", "hostAliases", "hostIPC", "hostNetwork", "hostUsers", "overhead"),
    *("preemptionPolicy", "resourceClaims", "terminationGracePeriodSeconds", "topologySpreadConstraints"),
)
# Fields that have the same name in the chart and hold a single value.
SAME = ("affinity", "priorityClassName", "runtimeClassName", "schedulerName")
# Kubernetes writes these defaults into running jobs, so they appear in `kubectl get -o yaml`.
DEFAULTS: dict[str, Any] = {
    "restartPolicy": "Never",
    "enableServiceLinks": False,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "preemptionPolicy": "PreemptLowerPriority",
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "shareProcessNamespace": False,
}
PROCESSES = "distrain's scripts signal process 1 of their container, and find ranks among all processes that they see"
RESTARTS = "distrain restarts the ranks of a failed run, job.maxRestarts times"
# Fields that the chart itself sets in each pod, with the reason why the source's value is left out.
LEFT_OUT = {
    "restartPolicy": RESTARTS,
    "enableServiceLinks": "distrain sets it to false",
    "automountServiceAccountToken": "only a launcher gets a token, where it starts the ranks through the API server",
    "hostname": "the operator or Kubernetes sets it",
    "subdomain": "the operator or Kubernetes sets it",
    "setHostnameAsFQDN": "the operator or Kubernetes sets it",
    "activeDeadlineSeconds": "use job.activeDeadlineSeconds",
    "priority": "priorityClassName sets it",
    "hostPID": PROCESSES,
    "shareProcessNamespace": PROCESSES,
}
CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "stdin": False,
    "tty": False,
}
CONTAINER_LEFT_OUT = {
    "livenessProbe": "distrain starts the program and watches it; the main container has no probes",
    "readinessProbe": "distrain-launch itself waits for the workers; the main container has no probes",
    "startupProbe": "the main container has no probes",
    "lifecycle": "distrain sets what stops the program; do it in the program, on SIGTERM",
    "terminationMessagePath": "distrain sets it",
    "terminationMessagePolicy": "distrain sets it",
    "stdin": "nobody types into a rank",
    "stdinOnce": "nobody types into a rank",
    "tty": "a rank has no terminal",
    "volumeDevices": "the chart has no value for raw devices",
    "resizePolicy": "the chart has no value for it",
    "restartPolicy": "distrain restarts the program: job.maxRestarts",
}
SSH_PORT = 22
OPERATORS_PORTS = {"mxjob-port", "tfjob-port", "pytorchjob-port"}
# Annotations whose prefix names the tool that wrote them, and labels that the operators set.
COPIES = ("kubectl.kubernetes.io/last-applied-configuration",)
OWNERS = ("meta.helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
OPERATORS = ("training.kubeflow.org/", "batch.kubernetes.io/", "trainer.kubeflow.org/", "jobset.sigs.k8s.io/")

Parts = dict[str, Part]


def read_pod(draft: Draft, section: str, template: Path, main: int) -> Parts:
    """Return the fields of a pod template that the values can hold both per role and for all roles, such as env.

    Fields that the values can hold only per role, such as cpu and memory, are not returned: this function sets them in
    the role's section. `main` is the index of the container that trains.
    """
    pod = (*template, "spec")
    container = (*pod, "containers", main)
    carry_resources(draft, section, (*container, "resources"))
    parts = _metadata(draft, template) | volumes.parts_of(draft, section, pod, container)
    parts |= _containers(draft, pod, main) | _placement(draft, section, pod) | _environment(draft, container)
    parts |= _security(draft, pod, container)
    _left_out(draft, pod, LEFT_OUT, DEFAULTS)
    _left_out(draft, container, CONTAINER_LEFT_OUT, CONTAINER_DEFAULTS)
    _ports(draft, container)
    draft.know((*container, "name"))
    return {key: part for key, part in parts.items() if part.value not in ({}, [], None)}


def _metadata(draft: Draft, template: Path) -> Parts:
    metadata = (*template, "metadata")
    for name in ("creationTimestamp", "name", "namespace"):
        draft.know((*metadata, name))
    found: Parts = {}
    for key in ("labels", "annotations"):
        found[key] = kept_metadata(draft, (*metadata, key))
    return found


def kept_metadata(draft: Draft, path: Path) -> Part:
    """Return labels or annotations, except those that an operator, a service mesh, or a tool such as Helm has set."""
    kept: dict[str, Any] = {}
    for key, value in draft.ledger.get(path, {}).items():
        place = (*path, key)
        if key in COPIES:
            draft.know(place)
        elif key.startswith(OWNERS):
            draft.lose(place, "it names the earlier owner of the job")
        elif key.startswith(OPERATORS):
            draft.lose(place, "the operator sets it")
        elif key == "sidecar.istio.io/inject":
            draft.carry(("serviceMesh",), "istio", place) if str(value).lower() == "true" else draft.know(place)
        else:
            kept[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return Part(kept, tuple((*path, key) for key in kept))


def _containers(draft: Draft, pod: Path, main: int) -> Parts:
    found: Parts = {}
    others = [index for index, _ in enumerate(draft.ledger.get((*pod, "containers"), [])) if index != main]
    for key, field, indexes in (
        ("sidecars", "containers", others),
        ("initContainers", "initContainers", range(len(draft.ledger.get((*pod, "initContainers"), [])))),
    ):
        paths = tuple((*pod, field, index) for index in indexes)
        containers = [draft.ledger.get(path) for path in paths]
        if all(isinstance(each, dict) for each in containers):
            found[key] = Part([draft.credentials.container(each) for each in containers], paths)
    return found


def _placement(draft: Draft, section: str, pod: Path) -> Parts:
    found: Parts = {}
    selector = draft.ledger.get((*pod, "nodeSelector"), {})
    found["nodeSelector"] = Part(selector, tuple((*pod, "nodeSelector", key) for key in selector))
    tolerations = draft.ledger.get((*pod, "tolerations"), [])
    found["tolerations"] = Part(tolerations, tuple((*pod, "tolerations", index) for index, _ in enumerate(tolerations)))
    for key in SAME:
        value = draft.ledger.get((*pod, key))
        if DEFAULTS.get(key) == value:
            draft.know((*pod, key))
        else:
            found[key] = Part(value, ((*pod, key),))
    found["podSpec"] = _pod_spec(draft, section, pod)
    if node := draft.ledger.get((*pod, "nodeName")):
        more = {"kubernetes.io/hostname": node}
        paths = (*found["nodeSelector"].paths, (*pod, "nodeName"))
        found["nodeSelector"] = Part({**selector, **more}, paths)
    return found


def _pod_spec(draft: Draft, section: str, pod: Path) -> Part:
    found: dict[str, Any] = {}
    for key in POD_SPEC:
        value = draft.ledger.get((*pod, key))
        if key in DEFAULTS and value == DEFAULTS[key]:
            draft.know((*pod, key))
        elif key == "terminationGracePeriodSeconds" and section != "workers":
            draft.lose((*pod, key), "all pods of a job have the workers' value")
        elif value is not None:
            found[key] = value
    return Part(found, tuple((*pod, key) for key in found))


def _environment(draft: Draft, container: Path) -> Parts:
    entries = draft.ledger.get((*container, "env"), [])
    entries = entries if all(isinstance(each, dict) for each in entries) else []
    paths = tuple((*container, "env", index) for index, _ in enumerate(entries))
    sources = draft.ledger.get((*container, "envFrom"), [])
    return {
        "env": Part([draft.credentials.env(_as_text(each)) for each in entries], paths),
        "envFrom": Part(sources, tuple((*container, "envFrom", index) for index, _ in enumerate(sources))),
    }


def _as_text(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a variable with its value as text, as Kubernetes requires, even if the source has a number."""
    value = entry.get("value")
    if isinstance(value, bool):
        return {**entry, "value": str(value).lower()}
    return {**entry, "value": str(value)} if isinstance(value, int | float) else entry


def _security(draft: Draft, pod: Path, container: Path) -> Parts:
    found: Parts = {}
    for key, place in (("securityContext", pod), ("containerSecurityContext", container)):
        fields = draft.ledger.get((*place, "securityContext"), {})
        kept = {name: value for name, value in fields.items() if name != "runAsUser"}
        found[key] = Part(kept, tuple((*place, "securityContext", name) for name in kept))
    users = [(*place, "securityContext", "runAsUser") for place in (container, pod)]
    found["runAsUser"] = Part(next(filter(_is_number, map(draft.ledger.get, users)), None), tuple(users))
    return found


def _is_number(value: Any) -> bool:
    return value is not None


def _left_out(draft: Draft, place: Path, reasons: dict[str, str], defaults: dict[str, Any]) -> None:
    for key, why in reasons.items():
        value = draft.ledger.get((*place, key))
        if key in defaults and value == defaults[key]:
            draft.know((*place, key))
        elif value is not None:
            draft.lose((*place, key), why)


def _ports(draft: Draft, container: Path) -> None:
    why = "the chart declares no ports; a port need not be declared to be reached"
    for index, port in enumerate(draft.ledger.get((*container, "ports"), [])):
        path = (*container, "ports", index)
        if port.get("name") in OPERATORS_PORTS:
            draft.know(path)
        elif port.get("containerPort") == SSH_PORT:
            draft.lose(path, "the workers' sshd listens on ssh.port, 2222, here")
        elif port.get("hostPort"):
            draft.lose(path, "the chart opens no port of the node; use hostNetwork in workers.podSpec")
        else:
            draft.lose(path, why)
