"""Causes for which kubelet cannot start a container: its image, or an object to which the pod refers."""

from __future__ import annotations

from lab.cluster.namespaces import NODE_ADDRESS
from tests.cluster.testbed import SECRET
from tests.cluster.why.case import IMAGE, Case, Said
from tests.cluster.why.stages import of_namespace, volume, with_objects, with_registry

LAUNCHER, WORKER = "run1-launcher-x7k2p", "run1-worker-0"
TRAINER = "127.0.0.1:7443/team/trainer:0.1.0"
NO_TOKEN = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]
CREATE = "correct the values, or create what they name"
IN_VOLUMES = "create it there, or correct the name in volumes"
LOGIN = "correct image.repository, or name a Secret with a login for this registry under image.pullSecrets"
PREPARE = {"name": "prepare", "image": f"{IMAGE}:0.1.0", "command": ["sh", "-c", "exit 3"]}

CASES = (
    Case(
        "registry that the node cannot reach",
        Said(
            "Pending",
            f"image.repository: cannot pull {NODE_ADDRESS}:1/team/trainer:0.1.0: connection refused",
            "correct image.repository, or let the node reach the registry",
        ),
        {"image.repository": f"{NODE_ADDRESS}:1/team/trainer"},
    ),
    Case(
        "image missing",
        Said(
            "Pending",
            f"image.repository: cannot pull {TRAINER}: not found",
            "correct image.repository or image.tag, or push the image",
        ),
        stage=with_registry(login="right"),
    ),
    Case(
        "pull secret missing",
        Said(
            "Pending",
            f"image.pullSecrets: there is no Secret hub in namespace team, and so the node cannot pull {TRAINER}: "
            "401 Unauthorized",
            "create it there, or correct the name",
        ),
        stage=with_registry(login=None),
    ),
    Case(
        "login that the registry refuses",
        Said("Pending", f"image.repository: cannot pull {TRAINER}: 401 Unauthorized", LOGIN),
        stage=with_registry(login="wrong"),
    ),
    Case(
        "image that is never pulled",
        Said(
            "Pending",
            f'image.repository: cannot pull {IMAGE}:9.9: Container image "{IMAGE}:9.9" is not present with pull policy'
            " of Never",
            "load the image into the node, or set image.pullPolicy to IfNotPresent",
        ),
        {"image.tag": "9.9", "image.pullPolicy": "Never"},
    ),
    Case(
        "S3 Secret missing",
        Said(
            "Pending",
            's3.secretName: secret "nobody" not found in namespace team',
            "create it there, or correct the name",
        ),
        {"s3.secretName": "nobody", "command": []},
        trains=True,
    ),
    Case(
        "key missing in the S3 Secret",
        Said(
            "Pending",
            "s3.secretName: the Secret half of namespace team has no key AWS_SECRET_ACCESS_KEY",
            "add the key to it",
        ),
        {"s3.secretName": "half"},
        stage=with_objects(of_namespace("Secret", "half", stringData={"AWS_ACCESS_KEY_ID": "a"})),
        trains=True,
    ),
    Case(
        "Secret of an environment variable missing",
        Said("Pending", f'{LAUNCHER}: cannot start: secret "hub" not found', CREATE),
        {"env": NO_TOKEN},
    ),
    Case(
        "key of an environment variable missing",
        Said("Pending", f"{LAUNCHER}: the Secret hub of namespace team has no key token", "add the key to it"),
        {"env": NO_TOKEN},
        stage=with_objects(of_namespace("Secret", "hub", stringData={"user": "a"})),
    ),
    Case(
        "Secret of a volume missing",
        Said("Starting", f'{WORKER}: volume data: secret "keys" is not in namespace team', IN_VOLUMES),
        volume({"secret": {"secretName": "keys"}}),
    ),
    Case(
        "ConfigMap of a volume missing",
        Said("Starting", f'{WORKER}: volume data: configmap "settings" is not in namespace team', IN_VOLUMES),
        volume({"configMap": {"name": "settings"}}),
    ),
    Case(
        "key of a volume missing",
        Said(
            "Starting",
            f"{WORKER}: volume data: its Secret or ConfigMap has no key token",
            "add the key, or correct items in volumes",
        ),
        volume({"secret": {"secretName": SECRET, "items": [{"key": "token", "path": "token"}]}}),
    ),
    Case(
        "folder of the node missing",
        Said(
            "Starting",
            f"{WORKER}: volume data: /no/such on the node is not a directory",
            "make it on each node, or correct hostPath in volumes",
        ),
        {**volume({"hostPath": {"path": "/no/such", "type": "Directory"}}), "podSecurity": "privileged"},
        pod_security="privileged",
    ),
    Case(
        "CSI driver missing",
        Said(
            "Starting",
            f"{WORKER}: volume data: the CSI driver disks.example.com does not run on the node",
            "install it, or wait until it has started there",
        ),
        {**volume({"csi": {"driver": "disks.example.com"}}), "podSecurity": "privileged"},
        pod_security="privileged",
    ),
    Case(
        "init container that fails",
        Said(
            "Starting",
            f"{WORKER}: its init container prepare starts and ends again and again: Error (exit code 3)",
            f"read `kubectl --namespace team logs {WORKER} -c prepare --previous`",
        ),
        {"workers.podSpec.initContainers": [PREPARE]},
    ),
)
