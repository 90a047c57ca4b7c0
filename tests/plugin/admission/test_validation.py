"""Objects that the API server refuses, each with one mistake; test_random_validation.py has the combinations."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.objects import Object, batch_job, definition, mpi_job, node, pytorch_job, template, tf_job

Path = tuple[str | int, ...]

ROOM = [node("a")]
POD: Path = ("spec", "template", "spec")
MAIN: Path = (*POD, "containers", 0)
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
IN = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def _job() -> Object:
    return batch_job("a", template("web", {}))


def _set() -> Object:
    pod = template("web", {})
    spec = {"replicas": 1, "selector": {"matchLabels": pod["metadata"]["labels"]}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": spec}


def _changed(item: Object, path: Path, value: Any) -> Object:
    """Return the object with another value of one field; None removes the field."""
    changed = copy.deepcopy(item)
    *parents, key = path
    place: Any = changed
    for each in parents:
        place = place[each]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return changed


def _nodes(*requirements: Object, **terms: Any) -> Object:
    term = {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
    return {"nodeAffinity": {**({REQUIRED: term} if requirements else {}), **terms}}


def _apart(**term: Any) -> Object:
    return {"podAntiAffinity": {REQUIRED: [term]}}


def _ports(*ports: Object) -> list[Object]:
    return [{"containerPort": 80, **port} for port in ports]


def _mounted(*mounts: Object) -> Object:
    containers = [{"name": "web", "image": "busybox", "volumeMounts": list(mounts)}]
    return {"restartPolicy": "Never", "containers": containers, "volumes": [{"name": "data"}]}


CONTAINERS = [
    pytest.param((*POD, "containers"), [], "containers: Required value", id="no-containers"),
    pytest.param((*MAIN, "image"), None, "containers[0].image: Required value", id="no-image"),
    pytest.param((*MAIN, "image"), " a", 'containers[0].image: Invalid value: " a": must not have', id="blank-image"),
    pytest.param((*MAIN, "name"), None, "containers[0].name: Required value", id="no-name"),
    pytest.param((*MAIN, "name"), "A", 'containers[0].name: Invalid value: "A": a lowercase RFC 1123 label', id="name"),
    pytest.param((*MAIN, "name"), "a.b", '"a.b": must not contain dots', id="name-with-dots"),
    pytest.param((*MAIN, "name"), "x" * 64, "must be no more than 63 characters", id="long-name"),
    pytest.param(
        (*POD, "initContainers"),
        [{"name": "web", "image": "a"}],
        'initContainers[0].name: Duplicate value: "web"',
        id="name-twice",
    ),
]
FIELDS = [
    pytest.param((*MAIN, "env"), [{"name": "a b="}], 'env[0].name: Invalid value: "a b=": a valid', id="variable"),
    pytest.param(
        (*MAIN, "livenessProbe"), {}, "livenessProbe: Required value: must specify a handler type", id="probe"
    ),
    pytest.param(
        (*POD, "initContainers"),
        [{"name": "a", "image": "a", "startupProbe": {"exec": {}}}],
        "initContainers[0].startupProbe: Forbidden: may not be set for init containers",
        id="probe-of-an-init-container",
    ),
    pytest.param((*POD, "hostname"), "Bad_Name", 'spec.hostname: Invalid value: "Bad_Name"', id="hostname"),
    pytest.param(
        (*POD, "activeDeadlineSeconds"),
        0,
        "spec.template.spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        id="deadline",
    ),
    pytest.param(
        ("spec", "backoffLimitPerIndex"),
        1,
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        id="backoff-per-index",
    ),
]
PORTS = [
    pytest.param(
        _ports({"hostPort": 1, "hostIP": "1.1.1.1"}, {"hostPort": 1, "hostIP": "1.1.1.1"}),
        'ports[1].hostPort: Duplicate value: "TCP/1.1.1.1/1"',
        id="host-port-twice",
    ),
    pytest.param([{}], "ports[0].containerPort: Required value", id="no-container-port"),
    pytest.param(
        [{"containerPort": 65536}],
        "ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        id="container-port",
    ),
    pytest.param(
        _ports({"protocol": "HTTP"}),
        'ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
        id="protocol",
    ),
    pytest.param(_ports({"name": "80"}), "must contain at least one letter (a-z)", id="name"),
    pytest.param(_ports({"name": "a"}, {"name": "a"}), 'ports[1].name: Duplicate value: "a"', id="name-twice"),
]
VOLUMES = [
    pytest.param([{"name": "a"}, {"name": "a"}], 'volumes[1].name: Duplicate value: "a"', id="name-twice"),
    pytest.param([{"emptyDir": {}}], "volumes[0].name: Required value", id="no-name"),
    pytest.param([{"name": "a_b"}], 'volumes[0].name: Invalid value: "a_b"', id="name"),
    pytest.param(
        [{"name": "a", "persistentVolumeClaim": {}}],
        "volumes[0].persistentVolumeClaim.claimName: Required value",
        id="no-claim",
    ),
    pytest.param(
        [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}],
        "volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        id="two-types",
    ),
]
CLAIMS = [
    pytest.param({}, "spec.accessModes: Required value: at least 1 access mode is required", id="empty"),
    pytest.param({**CLAIM, "accessModes": ["RWO"]}, 'accessModes: Unsupported value: "RWO": supported', id="mode"),
    pytest.param(
        {**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
        "accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        id="modes",
    ),
    pytest.param({**CLAIM, "resources": {}}, "spec.resources[storage]: Required value", id="no-storage"),
    pytest.param(
        {**CLAIM, "resources": {"requests": {"storage": "-1Gi"}}},
        'spec.resources[storage]: Invalid value: "-1Gi": must be greater than zero',
        id="negative-storage",
    ),
    pytest.param({**CLAIM, "volumeMode": "block"}, 'volumeMode: Unsupported value: "block"', id="volume-mode"),
]
MOUNTS = [
    pytest.param([{"name": "x", "mountPath": "/x"}], 'volumeMounts[0].name: Not found: "x"', id="no-volume"),
    pytest.param([{"mountPath": "/x"}], "volumeMounts[0].name: Required value", id="no-name"),
    pytest.param([{"name": "data"}], "volumeMounts[0].mountPath: Required value", id="no-path"),
    pytest.param(
        [{"name": "data", "mountPath": "/x"}, {"name": "data", "mountPath": "/x"}],
        'volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
        id="path-twice",
    ),
]
TOLERATIONS = [
    pytest.param({"key": "a", "operator": "In"}, 'operator: Unsupported value: "In": supported', id="operator"),
    pytest.param({"key": "a", "effect": "NoRun"}, 'effect: Unsupported value: "NoRun": supported', id="effect"),
    pytest.param(
        {"key": "a", "operator": "Exists", "value": "b"},
        "value must be empty when `operator` is 'Exists'",
        id="exists-with-value",
    ),
    pytest.param({"operator": "Equal"}, "operator must be Exists when `key` is empty", id="equal-without-key"),
    pytest.param(
        {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
        id="seconds",
    ),
]
SPREADS = [
    pytest.param([{**SPREAD, "maxSkew": 0}], "[0].maxSkew: Invalid value: 0: must be greater than zero", id="skew"),
    pytest.param([{**SPREAD, "maxSkew": None}], "[0].maxSkew: Invalid value: 0: must be greater", id="no-skew"),
    pytest.param([{**SPREAD, "minDomains": 0}], "[0].minDomains: Invalid value: 0: must be greater", id="domains"),
    pytest.param(
        [{**SPREAD, "minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}],
        "[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule",
        id="domains-of-a-score",
    ),
    pytest.param([{**SPREAD, "whenUnsatisfiable": "No"}], '[0].whenUnsatisfiable: Unsupported value: "No"', id="when"),
    pytest.param(
        [{**SPREAD, "topologyKey": ""}], "[0].topologyKey: Required value: can not be empty", id="no-topology-key"
    ),
    pytest.param(
        [SPREAD, SPREAD],
        '[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"',
        id="twice",
    ),
    pytest.param([{**SPREAD, "nodeTaintsPolicy": "no"}], '[0].nodeTaintsPolicy: Unsupported value: "no"', id="policy"),
]
AFFINITIES = [
    pytest.param(_nodes({**IN, "operator": "in"}), 'operator: Invalid value: "in": not a valid', id="operator"),
    pytest.param(_nodes({**IN, "values": []}), "values: Required value: must be specified", id="in-without-values"),
    pytest.param(_nodes({**IN, "operator": "Exists"}), "values: Forbidden: may not be specified", id="exists-values"),
    pytest.param(_nodes({**IN, "operator": "Gt", "values": []}), "single value when `operator` is 'Lt'", id="gt"),
    pytest.param(
        _nodes(**{REQUIRED: {"nodeSelectorTerms": []}}),
        "nodeSelectorTerms: Required value: must have at least one node selector term",
        id="no-terms",
    ),
    pytest.param(
        _nodes(**{PREFERRED: [{"weight": 101, "preference": {}}]}),
        f"nodeAffinity.{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100",
        id="weight-of-nodes",
    ),
    pytest.param(
        {"podAffinity": {PREFERRED: [{"podAffinityTerm": {"topologyKey": "zone"}}]}},
        f"podAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
        id="no-weight-of-pods",
    ),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        'matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys',
        id="label-key-twice",
    ),
    pytest.param(
        _apart(topologyKey="zone", matchLabelKeys=["a"]),
        "matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        id="label-key-without-selector",
    ),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={}, mismatchLabelKeys=["a b"]),
        'mismatchLabelKeys[0]: Invalid value: "a b": name part must consist of alphanumeric characters',
        id="label-key-that-is-none",
    ),
    pytest.param(_apart(), f"podAntiAffinity.{REQUIRED}[0].topologyKey: Required value", id="no-topology-key"),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={"matchExpressions": [{**IN, "operator": "Gt"}]}),
        'labelSelector.matchExpressions[0].operator: Invalid value: "Gt"',
        id="operator-of-nodes",
    ),
]
JOBS = [
    pytest.param((*POD, "restartPolicy"), None, f"{'.'.join(map(str, POD))}.restartPolicy: Required value", id="none"),
    pytest.param((*POD, "restartPolicy"), "Always", 'valid values: "OnFailure", "Never"', id="always"),
    pytest.param((*POD, "restartPolicy"), "No", 'restartPolicy: Unsupported value: "No"', id="unknown"),
    pytest.param(("spec", "backoffLimit"), -1, "spec.backoffLimit: Invalid value: -1: must be greater", id="backoff"),
    pytest.param(("spec", "completions"), -1, "spec.completions: Invalid value: -1", id="completions"),
    pytest.param(("spec", "completionMode"), "Some", 'spec.completionMode: Unsupported value: "Some"', id="mode"),
    pytest.param(
        ("spec",),
        {**_job()["spec"], "parallelism": 2, "completionMode": "Indexed"},
        "spec.completions: Required value: when completion mode is Indexed",
        id="indexed-without-completions",
    ),
    pytest.param(
        ("spec",),
        {**_job()["spec"], "manualSelector": True, "selector": {"matchLabels": {"app": "x"}}},
        "`selector` does not match template `labels`",
        id="selector",
    ),
    pytest.param(
        ("spec", "selector"), {"matchLabels": {"app": "x"}}, "spec.selector: Invalid value", id="selector-of-a-job"
    ),
    pytest.param(("metadata", "name"), None, "metadata.name: Required value: name or generateName", id="no-name"),
    pytest.param(
        ("metadata",), {"generateName": "a."}, 'metadata.generateName: Invalid value: "a.": a', id="generated-name"
    ),
    pytest.param(("metadata", "name"), "A", 'metadata.name: Invalid value: "A": a lowercase RFC 1123', id="name"),
    pytest.param(("metadata", "name"), "x" * 64, f'template.labels: Invalid value: "{"x" * 64}"', id="name-as-label"),
    pytest.param(("metadata", "labels"), {"a b": "c"}, 'metadata.labels: Invalid value: "a b"', id="label-key"),
    pytest.param(("metadata", "labels"), {"a": "-"}, 'metadata.labels: Invalid value: "-"', id="label-value"),
    pytest.param(("metadata", "annotations"), {"a b": "c"}, 'metadata.annotations: Invalid value: "a b"', id="notes"),
    pytest.param((*POD, "nodeSelector"), {"a": "b c"}, 'spec.nodeSelector: Invalid value: "b c"', id="node-selector"),
]
SETS = [
    pytest.param(
        (*POD, "restartPolicy"), "Never", 'Unsupported value: "Never": supported values: "Always"', id="never"
    ),
    pytest.param(("spec", "selector"), None, "spec.selector: Required value", id="no-selector"),
    pytest.param(("spec", "selector"), {}, "empty selector is invalid for statefulset", id="empty-selector"),
    pytest.param(
        ("spec", "selector"),
        {"matchLabels": {"app": "y"}},
        "`selector` does not match template `labels`",
        id="selector",
    ),
    pytest.param(
        ("spec", "podManagementPolicy"), "Foo", "\"Foo\": must be 'OrderedReady' or 'Parallel'", id="management"
    ),
    pytest.param(("spec", "replicas"), -1, "spec.replicas: Invalid value: -1", id="replicas"),
    pytest.param(("metadata", "name"), "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots', id="name"),
    pytest.param((*POD, "activeDeadlineSeconds"), 5, "activeDeadlineSeconds in StatefulSet is not", id="deadline"),
]


def _refused(item: Object, words: str) -> None:
    answer = judged(job_of(item), ROOM)

    reasons = [each.reason for each in answer.reasons if f"{item['kind']} is invalid: " in each.reason]
    assert answer.verdict == "impossible"
    assert len(reasons) == 1
    assert words in reasons[0]


@pytest.mark.parametrize(("path", "value", "words"), [*CONTAINERS, *FIELDS, *JOBS])
def test_job_that_the_api_server_refuses_is_impossible(path: Path, value: Any, words: str) -> None:
    _refused(_changed(_job(), path, value), words)


CONTEXT, POD_CONTEXT = (*MAIN, "securityContext"), (*POD, "securityContext")
BARE = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}
ADMIN = {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}
SECURITY = [
    pytest.param(
        CONTEXT,
        {"privileged": True, "allowPrivilegeEscalation": False},
        "Invalid value: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        id="privileged",
    ),
    pytest.param(CONTEXT, ADMIN, "to false and `capabilities.Add` CAP_SYS_ADMIN", id="administrator"),
    pytest.param(
        CONTEXT, {"runAsUser": -1}, "securityContext.runAsUser: Invalid value: -1: must be between", id="user"
    ),
    pytest.param(
        POD_CONTEXT, {"runAsUser": 2**31}, "spec.securityContext.runAsUser: Invalid value: 2147483648", id="users"
    ),
    pytest.param(CONTEXT, {"procMount": "Unmasked"}, "`hostUsers` must be false to use `Unmasked`", id="proc"),
    pytest.param(CONTEXT, {"procMount": "All"}, 'procMount: Unsupported value: "All"', id="proc-mount"),
    pytest.param(CONTEXT, {"seccompProfile": {}}, "seccompProfile.type: Required value: type is required", id="type"),
    pytest.param(
        POD_CONTEXT, {"seccompProfile": {"type": "Default"}}, 'type: Unsupported value: "Default"', id="profile"
    ),
    pytest.param(
        CONTEXT,
        {"appArmorProfile": {"type": "Localhost"}},
        "appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost",
        id="local-profile",
    ),
    pytest.param(
        POD_CONTEXT,
        {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
        "localhostProfile: Invalid value: can only be set when seccomp type is Localhost",
        id="profile-of-the-node",
    ),
    pytest.param(
        POD, {**BARE, "hostUsers": False, "hostIPC": True}, "spec.HostIPC: Forbidden: when `hostUsers`", id="users-ipc"
    ),
    pytest.param(
        POD, {**BARE, "hostUsers": False, "hostNetwork": True}, "spec.hostNetwork: Forbidden: when", id="users-network"
    ),
    pytest.param((*POD, "os"), {"name": "mac"}, 'spec.os: Unsupported value: "mac"', id="os"),
]
SOURCES = [
    pytest.param((*POD, "volumes"), [{"name": "a", "secret": {}}], "secret.secretName: Required value", id="secret"),
    pytest.param((*POD, "volumes"), [{"name": "a", "configMap": {}}], "configMap.name: Required value", id="map"),
    pytest.param((*POD, "volumes"), [{"name": "a", "hostPath": {}}], "hostPath.path: Required value", id="no-path"),
    pytest.param(
        (*POD, "volumes"), [{"name": "a", "hostPath": {"path": "/a/.."}}], "must not contain '..'", id="path-upwards"
    ),
    pytest.param(
        (*MAIN, "env"),
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a"}}}],
        "env[0].valueFrom.secretKeyRef.key: Required value",
        id="no-key",
    ),
    pytest.param(
        (*MAIN, "env"),
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "a"}}}],
        "env[0].valueFrom.configMapKeyRef.name: Required value",
        id="key-of-nothing",
    ),
    pytest.param((*MAIN, "envFrom"), [{"secretRef": {}}], "envFrom[0].secretRef.name: Required value", id="env-from"),
    pytest.param((*MAIN, "imagePullPolicy"), "always", 'imagePullPolicy: Unsupported value: "always"', id="pull"),
]


def _probed(**probe: Any) -> Object:
    return {"exec": {"command": ["true"]}, **probe}


def _projected(**source: Any) -> list[Object]:
    return [{"name": "a", "projected": {"sources": [source]}}]


VARIABLES = [
    pytest.param({}, "must specify one of: `fieldRef`, `resourceFieldRef`, ", id="no-source"),
    pytest.param(
        {"secretKeyRef": {"name": "a", "key": "a"}, "configMapKeyRef": {"name": "a", "key": "a"}},
        "may not have more than one field specified at a time",
        id="two-sources",
    ),
    pytest.param(
        {"fieldRef": {"fieldPath": "spec.nodename"}},
        'valueFrom.fieldRef.fieldPath: Invalid value: "spec.nodename": error converting fieldPath',
        id="misspelt-field",
    ),
    pytest.param(
        {"fieldRef": {"fieldPath": "metadata.labels"}},
        'valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name"',
        id="all-labels",
    ),
    pytest.param(
        {"resourceFieldRef": {"resource": "cpu"}}, 'resourceFieldRef.resource: Unsupported value: "cpu"', id="resource"
    ),
]
NONE_WITHOUT_SERVER = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}], "dnsPolicy": "None"}
NAMES = [
    pytest.param((*POD, "dnsPolicy"), "none", 'dnsPolicy: Unsupported value: "none"', id="dns-policy"),
    pytest.param(POD, NONE_WITHOUT_SERVER, "dnsConfig: Required value: must provide `dnsConfig`", id="no-dns-config"),
    pytest.param(
        POD,
        {**NONE_WITHOUT_SERVER, "dnsConfig": {"searches": ["a"]}},
        "dnsConfig.nameservers: Required value: must provide at least one DNS nameserver",
        id="no-nameserver",
    ),
    pytest.param(
        (*POD, "dnsConfig"), {"nameservers": ["dns.a"]}, 'nameservers[0]: Invalid value: "dns.a": must be', id="server"
    ),
    pytest.param((*POD, "dnsConfig"), {"searches": ["a_"]}, 'searches[0]: Invalid value: "a_"', id="search-domain"),
    pytest.param(
        (*POD, "hostAliases"), [{"ip": "10.0.0.256"}], 'hostAliases[0].ip: Invalid value: "10.0.0.256"', id="host-alias"
    ),
]
PROBES = [
    pytest.param(
        (*MAIN, "livenessProbe"),
        _probed(initialDelaySeconds=-1),
        "livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
        id="negative-delay",
    ),
    pytest.param(
        (*MAIN, "startupProbe"),
        _probed(successThreshold=2),
        "successThreshold: Invalid value: 2: must be 1",
        id="twice",
    ),
    pytest.param(
        (*MAIN, "readinessProbe"),
        _probed(terminationGracePeriodSeconds=5),
        "must not be set for readinessProbes",
        id="grace-of-a-readiness-probe",
    ),
    pytest.param((*MAIN, "livenessProbe"), {"exec": {}}, "livenessProbe.exec.command: Required value", id="no-command"),
    pytest.param(
        (*MAIN, "livenessProbe"), {"httpGet": {"path": "/"}}, "httpGet.port: Invalid value: 0: must be", id="no-port"
    ),
    pytest.param(
        (*MAIN, "livenessProbe"), _probed(grpc={"port": 80}), "grpc: Forbidden: may not specify more", id="two-handlers"
    ),
]
FILES = [
    pytest.param(
        (*POD, "volumes"),
        _projected(serviceAccountToken={"path": "a", "expirationSeconds": 60}),
        "serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
        id="short-token",
    ),
    pytest.param(
        (*POD, "volumes"),
        _projected(secret={"name": "a"}, configMap={"name": "a"}),
        "projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
        id="two-sources-in-one",
    ),
    pytest.param(
        (*POD, "volumes"),
        [{"name": "a", "secret": {"secretName": "a", "items": [{"key": "a", "path": "../a"}]}}],
        "secret.items[0].path: Invalid value: \"../a\": must not contain '..'",
        id="file-outside-the-volume",
    ),
    pytest.param(
        (*POD, "volumes"),
        [{"name": "a", "configMap": {"name": "a", "defaultMode": 777}}],
        "configMap.defaultMode: Invalid value: 777: must be a number between 0 and 0777 (octal)",
        id="mode-in-decimal",
    ),
]
KERNEL = [
    pytest.param((*POD, "securityContext"), {"fsGroup": -1}, "fsGroup: Invalid value: -1: must be between", id="group"),
    pytest.param(
        (*POD, "securityContext"),
        {"supplementalGroups": [0, 2**31]},
        "supplementalGroups[1]: Invalid value: 2147483648",
        id="groups",
    ),
    pytest.param(
        (*POD, "securityContext"),
        {"sysctls": [{"name": "Net.a"}]},
        'sysctls[0].name: Invalid value: "Net.a"',
        id="sysctl",
    ),
    pytest.param(
        (*POD, "securityContext"),
        {"sysctls": 2 * [{"name": "net.a"}]},
        "sysctls[1].name: Duplicate value",
        id="sysctls",
    ),
]


@pytest.mark.parametrize(("path", "value", "words"), [*SECURITY, *SOURCES, *NAMES, *PROBES, *FILES, *KERNEL])
def test_pods_that_the_api_server_refuses_are_impossible(path: Path, value: Any, words: str) -> None:
    _refused(_changed(_job(), path, value), words)


@pytest.mark.parametrize(("source", "words"), VARIABLES)
def test_variable_that_the_api_server_refuses_is_impossible(source: Object, words: str) -> None:
    _refused(_changed(_job(), (*MAIN, "env"), [{"name": "A", "valueFrom": source}]), words)


@pytest.mark.parametrize(
    "pods",
    [
        {"hostUsers": False, "containers": [{"securityContext": {"procMount": "Unmasked"}}]},
        {"containers": [{"securityContext": {"privileged": True}}]},
        {
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["010.0.0.1"], "searches": ["_a.b", "."]},
            "containers": [{}],
        },
        {"containers": [{"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]}]},
        {"containers": [{"readinessProbe": {"tcpSocket": {"port": "http"}, "successThreshold": 2}}]},
        {"securityContext": {"fsGroup": 0, "sysctls": [{"name": "net/ipv4/a.b"}]}, "containers": [{}]},
        {"containers": [{"securityContext": {"allowPrivilegeEscalation": True, "privileged": True, "runAsUser": 0}}]},
        {
            "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}},
            "containers": [{}],
        },
        {"os": {"name": "linux"}, "hostPID": True, "containers": [{"imagePullPolicy": "Never"}]},
    ],
)
def test_pods_with_rights_on_their_node_are_accepted(pods: Object) -> None:
    containers = [{"name": "main", "image": "a", **each} for each in pods["containers"]]

    assert judged(job_of(_changed(_job(), POD, {**BARE, **pods, "containers": containers})), ROOM).verdict == "fits"


@pytest.mark.parametrize(("path", "value", "words"), SETS)
def test_stateful_set_that_the_api_server_refuses_is_impossible(path: Path, value: Any, words: str) -> None:
    _refused(_changed(_set(), path, value), words)


@pytest.mark.parametrize(("ports", "words"), PORTS)
def test_ports_that_the_api_server_refuses_are_impossible(ports: list[Object], words: str) -> None:
    _refused(_changed(_job(), (*MAIN, "ports"), ports), words)


def test_port_of_the_host_network_is_taken_once() -> None:
    containers = [{"name": name, "image": "a", "ports": [{"containerPort": 80}]} for name in ("a", "b")]
    spec = {"restartPolicy": "Never", "hostNetwork": True, "containers": containers}

    _refused(_changed(_job(), POD, spec), 'containers[1].ports[0].hostPort: Duplicate value: "TCP//80"')


@pytest.mark.parametrize(("volumes", "words"), VOLUMES)
def test_volumes_that_the_api_server_refuses_are_impossible(volumes: list[Object], words: str) -> None:
    _refused(_changed(_job(), (*POD, "volumes"), volumes), words)


@pytest.mark.parametrize(("claim", "words"), CLAIMS)
def test_claims_that_the_api_server_refuses_are_impossible(claim: Object, words: str) -> None:
    own = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]

    _refused(_changed(_job(), (*POD, "volumes"), [own]), words)
    _refused(_changed(_set(), ("spec", "volumeClaimTemplates"), templates), words)


@pytest.mark.parametrize(("claim", "words"), CLAIMS)
def test_claim_of_the_manifest_that_the_api_server_refuses_is_impossible(claim: Object, words: str) -> None:
    metadata = {"name": "data"}
    item = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
    answer = judged(job_of(_job(), item), ROOM)

    assert answer.verdict == "impossible"
    assert any(words in each.reason for each in answer.reasons)
    assert answer.next.startswith(
        "PersistentVolumeClaim data: the API server does not accept this PersistentVolumeClaim"
    )


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_object_of_the_manifest_with_an_invalid_name_is_impossible(kind: str) -> None:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "Bad_Name"}}
    answer = judged(job_of(_job(), item), ROOM)

    assert answer.verdict == "impossible"
    assert answer.next == f"{kind} Bad_Name: the API server does not accept this {kind}. Correct metadata.name."


@pytest.mark.parametrize("kind", ["Secret", "PersistentVolumeClaim"])
def test_object_of_the_manifest_may_have_a_generated_name(kind: str) -> None:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"generateName": "a-"}, "spec": CLAIM}

    assert not [each for each in judged(job_of(_job(), item), ROOM).reasons if "is invalid" in each.reason]


@pytest.mark.parametrize(("mounts", "words"), MOUNTS)
def test_mounts_that_the_api_server_refuses_are_impossible(mounts: list[Object], words: str) -> None:
    _refused(_changed(_job(), POD, _mounted(*mounts)), words)


@pytest.mark.parametrize(("toleration", "words"), TOLERATIONS)
def test_toleration_that_the_api_server_refuses_is_impossible(toleration: Object, words: str) -> None:
    _refused(_changed(_job(), (*POD, "tolerations"), [toleration]), words)


@pytest.mark.parametrize(("constraints", "words"), SPREADS)
def test_topology_spread_that_the_api_server_refuses_is_impossible(constraints: list[Object], words: str) -> None:
    item = _changed(_job(), (*POD, "topologySpreadConstraints"), constraints)

    _refused(item, f"spec.template.spec.topologySpreadConstraints{words}")


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "x"}}, {"matchExpressions": [{**IN, "key": "app"}]}])
def test_label_key_beside_the_same_key_of_the_selector_is_impossible(selector: Object) -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = [{**rule, "labelSelector": selector, "matchLabelKeys": ["app"]}]
    labelled = _changed(_job(), ("spec", "template", "metadata"), {"labels": {"app": "x"}})
    words = 'topologySpreadConstraints[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector'

    _refused(_changed(labelled, (*POD, "topologySpreadConstraints"), spread), words)
    # A key that the pod does not have is not added to the selector.
    without = _changed(_job(), (*POD, "topologySpreadConstraints"), spread)
    assert not [each for each in judged(job_of(without), ROOM).reasons if "is invalid" in each.reason]


@pytest.mark.parametrize(("affinity", "words"), AFFINITIES)
def test_affinity_that_the_api_server_refuses_is_impossible(affinity: Object, words: str) -> None:
    _refused(_changed(_job(), (*POD, "affinity"), affinity), words)


def test_pod_of_an_operator_is_refused_by_its_own_path() -> None:
    answer = judged(chart_job(workers=1, worker={"containers": [{"name": "A"}]}), [node("a", gpu="8")])

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith('Pod is invalid: spec.containers[0].name: Invalid value: "A": ')
    assert answer.next == "workers: the API server does not accept this Pod. Correct spec.containers[0].name."


def test_operators_resource_without_a_valid_name_is_refused() -> None:
    answer = judged(job_of({**mpi_job(gpus=0), "metadata": {"name": "A"}}), ROOM)

    assert [each.reason.partition(": a ")[0] for each in answer.reasons] == [
        'MPIJob is invalid: metadata.name: Invalid value: "A"'
    ]


REPLICAS: Path = ("spec", "mpiReplicaSpecs")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            (*REPLICAS, "Launcher", "replicas"),
            2,
            "spec.mpiReplicaSpecs[Launcher].replicas: Invalid value: 2: must be 1",
        ),
        (
            (*REPLICAS, "Worker", "replicas"),
            0,
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            ("metadata", "name"),
            "1abc",
            'metadata.name: Invalid value: "1abc": will not able to create pod and service with invalid DNS label '
            '"1abc-worker-1": a DNS-1035 label must consist of',
        ),
    ],
)
def test_job_that_mpi_operator_does_not_run_is_impossible(path: Path, value: Any, words: str) -> None:
    answer = judged(job_of(_changed(mpi_job(gpus=0), path, value)), ROOM)

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith(f"MPIJob is invalid: {words}")
    step = f"the operator does not accept this MPIJob. Correct {words.partition(': ')[0]}."
    assert answer.next == f"launcher: {step}"


@pytest.mark.parametrize(
    ("item", "path", "value", "words"),
    [
        pytest.param(
            pytorch_job(workers=1, gpus=0),
            ("metadata", "name"),
            "a.b",
            'metadata.name: Invalid value: "a.b": should match: a DNS-1035 label must',
            id="name",
        ),
        pytest.param(
            pytorch_job(workers=2, gpus=0, master=True),
            ("spec", "pytorchReplicaSpecs", "Master", "replicas"),
            2,
            "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1",
            id="two-masters",
        ),
        pytest.param(
            pytorch_job(workers=1, gpus=0),
            ("spec", "pytorchReplicaSpecs"),
            {"worker": pytorch_job(workers=1, gpus=0)["spec"]["pytorchReplicaSpecs"]["Worker"]},
            'spec.pytorchReplicaSpecs[worker]: Unsupported value: "worker": supported values: "Master", "Worker"',
            id="lower-case",
        ),
        pytest.param(
            tf_job(servers=1, workers=1, gpus=0),
            ("spec", "tfReplicaSpecs"),
            dict.fromkeys(("Chief", "Master"), tf_job(servers=1, workers=1, gpus=0)["spec"]["tfReplicaSpecs"]["PS"]),
            "spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role",
            id="chief-and-master",
        ),
        pytest.param(
            tf_job(servers=1, workers=1, gpus=0),
            ("spec", "tfReplicaSpecs", "PS", "template", "spec", "containers", 0, "name"),
            "main",
            "spec.tfReplicaSpecs[PS].template.spec.containers: Required value: must have at least one container with "
            "name tensorflow",
            id="container",
        ),
    ],
)
def test_job_that_the_training_operator_does_not_run_is_impossible(
    item: Object, path: Path, value: Any, words: str
) -> None:
    right, wrong = (judged(job_of(each), ROOM) for each in (item, _changed(item, path, value)))

    assert (right.verdict, wrong.verdict) == ("fits", "impossible")
    assert wrong.reasons[0].reason.startswith(f"{item['kind']} is invalid: {words}")


def test_job_that_only_newer_operators_refuse_fits() -> None:
    job = _changed(mpi_job(gpus=0, version="v1"), (*REPLICAS, "Worker", "replicas"), 0)
    room = node("a", {"ephemeral-storage": "10Gi"})

    assert judged(job_of(job), [room], others=[definition("MPIJob", "v1")]).verdict == "fits"


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(_job(), id="job"),
        pytest.param(_set(), id="stateful-set"),
        pytest.param({**_job(), "metadata": {"generateName": "a-"}}, id="generated-name"),
        pytest.param({**mpi_job(gpus=0), "metadata": {"generateName": "a-"}}, id="generated-name-of-an-mpijob"),
        pytest.param(_changed(_job(), POD, _mounted({"name": "data", "mountPath": "/x"})), id="mounted"),
        pytest.param(
            _changed(_job(), (*MAIN, "ports"), _ports({"hostPort": 1}, {"hostPort": 1, "protocol": "UDP"})),
            id="protocols",
        ),
        pytest.param(
            _changed(_job(), ("spec",), {**_job()["spec"], "completionMode": "Indexed"}), id="default-completions"
        ),
        pytest.param(
            _changed(
                _changed(_set(), POD, {**_mounted({"name": "disk", "mountPath": "/x"}), "restartPolicy": "Always"}),
                ("spec", "volumeClaimTemplates"),
                [{"metadata": {"name": "disk"}, "spec": CLAIM}],
            ),
            id="claim-template",
        ),
        pytest.param(
            mpi_job(gpus=0, worker=_mounted({"name": "ssh-auth", "mountPath": "/x"})), id="volume-of-the-operator"
        ),
    ],
)
def test_what_the_api_server_defaults_or_adds_is_no_mistake(item: Object) -> None:
    assert not [each for each in judged(job_of(item), ROOM).reasons if "is invalid" in each.reason]
