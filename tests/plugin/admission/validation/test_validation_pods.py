"""Test pods that the API server refuses for their containers, security, names or files, each with one mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.admission.refusing import MAIN, POD, ROOM, Path, assert_refused, changed, valid_job
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object

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
    assert_refused(changed(valid_job(), path, value), words)


@pytest.mark.parametrize(("source", "words"), VARIABLES)
def test_variable_that_the_api_server_refuses_is_impossible(source: Object, words: str) -> None:
    assert_refused(changed(valid_job(), (*MAIN, "env"), [{"name": "A", "valueFrom": source}]), words)


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

    assert judged(job_of(changed(valid_job(), POD, {**BARE, **pods, "containers": containers})), ROOM).verdict == "fits"
