"""Create random pods whose fields matter to Pod Security admission. The same seed gives the same pod.

Each pod starts as a pod that `restricted` admits. Then only a few of its fields are changed, so that each level still
admits some of the pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chart.many import Pod

Yaml = dict[str, Any]

LEVELS = ["privileged", "baseline", "restricted", "Restricted", "none", ""]
VERSIONS = ["latest", *(f"v1.{minor}" for minor in range(41))]
ODD_VERSIONS = ["", "1.25", "v1", "v1.025", "v1.x", "v2.0", "v1.25\n", " v1.25", "V1.25", "Latest"]
NAMES = ["main", "side", "init", "", 'say "hi"', "näme"]
PROFILES = ["RuntimeDefault", "Localhost", "Unconfined", "", "runtimedefault", None]
CAPABILITIES = ["ALL", "NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN", "NET_RAW", "CAP_CHOWN", "all", ""]
SELINUX = {
    "type": ["container_t", "container_init_t", "container_engine_t", "spc_t", "a_t", "", None],
    "user": ["system_u", "", None],
    "role": ["system_r", "", None],
    "level": ["s0", None],
}
SYSCTLS = [
    *("kernel.shm_rmid_forced", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports", "kernel.msgmax"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_rmem", "net.core.somaxconn", ""),
]
VOLUMES = [
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
    *("secret", "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs"),
    *("rbd", "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
]
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
ANNOTATIONS = {
    "container.apparmor.security.beta.kubernetes.io/": [
        *(
            "runtime/default",
            "localhost/mine",
            "",
            "unconfined",
            "localhost",
            'a"b\\',
            "é\n\t\x01\x7f\u00a0\u200b\U0010ffff",
        ),
    ],
    "container.seccomp.security.alpha.kubernetes.io/": [
        *("runtime/default", "docker/default", "localhost/mine", "unconfined", "", 'a"b'),
    ],
}


@dataclass
class Maker:
    """Makes random values for parts of a pod, such as a security context.

    `share` is the probability with which each field is changed.
    """

    random: random.Random = field(repr=False)
    share: float

    def changed(self, part: Yaml, **choices: Callable[[], Any]) -> Yaml:
        """Return the part of a pod with a few fields changed to random values."""
        changes = {name: choice() for name, choice in choices.items() if self.random.random() < self.share}
        return {**part, **changes}

    def one(self, *choices: Any) -> Callable[[], Any]:
        return lambda: self.random.choice(choices)

    def some(self, choices: Sequence[Any], most: int = 2) -> list[Any]:
        return self.random.sample(choices, self.random.randrange(min(most, len(choices)) + 1))

    def of(self, choices: dict[str, list[Any]]) -> Yaml | None:
        """Return an object in which some of the keys have a random value. In one of six cases, return None."""
        keys = self.some(list(choices), len(choices))
        return self.random.choice([{key: self.random.choice(choices[key]) for key in keys}] * 5 + [None])


def random_pod(seed: int) -> Pod:
    chance = random.Random(seed)
    make = Maker(chance, share=chance.choice([0, 0.02, 0.05, 0.1, 0.3]))
    containers, init_containers = _containers(make, 1), _containers(make, 0)
    names = [container["name"] for container in (*containers, *init_containers)]
    spec = {"containers": containers, "initContainers": init_containers, "securityContext": _pod_context(make)}
    spec = make.changed(
        spec,
        hostNetwork=make.one(True, False, None),
        hostPID=make.one(True, False, None),
        hostIPC=make.one(True, False, None),
        hostUsers=make.one(True, False, False, None),
        os=make.one({"name": "windows"}, {"name": "windows"}, {"name": "linux"}, {}, None),
        securityContext=make.one(None, {}),
    )
    spec["volumes"] = [_volume(make) for _ in range(chance.randrange(4))]
    version = chance.choice(VERSIONS if chance.random() < 0.9 else ODD_VERSIONS)
    return Pod(chance.choice([*LEVELS[:3] * 3, *LEVELS]), spec, {"annotations": _annotations(make, names)}, version)


def _containers(make: Maker, least: int) -> list[Yaml]:
    return [_container(make) for _ in range(make.random.randrange(least, 4))]


def _container(make: Maker) -> Yaml:
    restart = {"restartPolicy": "Always"} if make.random.random() < 0.2 else {}
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return make.changed(
        {"name": make.random.choice(NAMES), "securityContext": _container_context(make, context), **restart},
        ports=lambda: [_port(make) for _ in range(make.random.randrange(3))],
        securityContext=make.one(None, {}),
        lifecycle=lambda: make.of({"postStart": _handlers(make), "preStop": _handlers(make)}),
        **{probe: make.one(*_handlers(make)) for probe in PROBES},
    )


def _port(make: Maker) -> Yaml:
    return make.changed({"containerPort": 80}, hostPort=make.one(80, 8080, 9, 0, None))


def _handlers(make: Maker) -> list[Any]:
    target = make.of({"host": ["127.0.0.1", "example.com", "", None], "path": ["/"]})
    return [{"httpGet": target}, {"tcpSocket": target}, {"exec": {"command": ["true"]}}, {}, None]


def _volume(make: Maker) -> Yaml:
    name = make.random.choice(["data", "work", ""])
    if make.random.random() > make.share:
        return {"name": name, make.random.choice(VOLUMES[:9]): {}}
    return {"name": name, **{source: make.random.choice([{}, {}, {}, None]) for source in make.some(VOLUMES)}}


def _pod_context(make: Maker) -> Yaml:
    strict = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return _context(make, make.changed(strict, sysctls=lambda: [{"name": name} for name in make.some(SYSCTLS, 3)]))


def _container_context(make: Maker, context: Yaml) -> Yaml:
    context = make.changed(
        context,
        privileged=make.one(True, False, None),
        allowPrivilegeEscalation=make.one(True, False, None),
        procMount=make.one("Default", "Unmasked", "", None),
        capabilities=lambda: make.of({"add": _lists(make), "drop": _lists(make)}),
    )
    return _context(make, context)


def _lists(make: Maker) -> list[Any]:
    return [make.some(CAPABILITIES, 3), ["ALL"], [], None]


def _context(make: Maker, context: Yaml) -> Yaml:
    """Return the security context with random changes in fields that both pods and containers have."""
    return make.changed(
        context,
        runAsNonRoot=make.one(True, False, None),
        runAsUser=make.one(0, 1000, None),
        seccompProfile=lambda: make.of({"type": PROFILES}),
        appArmorProfile=lambda: make.of({"type": PROFILES}),
        seLinuxOptions=lambda: make.of(SELINUX),
        windowsOptions=lambda: make.of({"hostProcess": [True, False, None], "gmsaCredentialSpecName": ["a"]}),
    )


def _annotations(make: Maker, names: list[str]) -> dict[str, str]:
    given = {"example.com/note": "unconfined"}
    for prefix, values in ANNOTATIONS.items():
        for name in (*names, "absent"):
            given = make.changed(given, **{f"{prefix}{name}": make.one(*values)})
    return make.changed(
        given, **{"seccomp.security.alpha.kubernetes.io/pod": make.one("runtime/default", "unconfined", "")}
    )
