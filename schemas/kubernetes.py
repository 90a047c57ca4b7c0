"""Write schemas/kubernetes.json: definitions of the Kubernetes fields in the values, from the OpenAPI description.

After lab/builds/go/kubernetes has moved to another release, run `python -m schemas.kubernetes`. The file is in git, so
that `make schema` needs neither Go nor the network. The definitions refuse unknown fields. The API server accepts
unknown fields: it drops them, or stores them in a custom resource.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lab.builds import golang

TARGET = Path(__file__).with_name("kubernetes.json")
ROOTS = ("Affinity", "Container", "EnvVar", "HostAlias", "PodDNSConfig", "PodResourceClaim", "PodSecurityContext",
         "Toleration", "TopologySpreadConstraint", "Volume", "VolumeMount")  # fmt: skip
NETWORKING_ROOTS = ("NetworkPolicyEgressRule", "NetworkPolicyIngressRule")
PACKAGE, NETWORKING = "io.k8s.api.core.v1.", "io.k8s.api.networking.v1."

# Quantity and IntOrString are strings in the OpenAPI description, but the API server also accepts integers. ObjectMeta
# is used in a volume claim template, which may have labels and annotations.
SPECIAL: dict[str, dict[str, Any]] = {
    "Quantity": {"type": ["string", "integer"]},
    "IntOrString": {"type": ["string", "integer"]},
    "ObjectMeta": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"type": "object", "additionalProperties": {"type": "string"}} for key in ("annotations", "labels")
        },
    },
}

# The schema leaves out these fields. Kubernetes has removed these fields or has replaced them (also by CSI drivers),
# uses them only on Windows, or drops them in most clusters because a feature gate is off. Each run of Helm reads the
# whole schema, so definitions that no user needs would cost every user time.
OMITTED = {
    "Container": {"restartPolicyRules"},
    "EnvVarSource": {"fileKeyRef"},
    "Lifecycle": {"stopSignal"},
    "LifecycleHandler": {"tcpSocket"},
    "PersistentVolumeClaimSpec": {"dataSource"},
    "Volume": {
        "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume", "flocker",
        "gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume", "quobyte",
        "rbd", "scaleIO", "storageos", "vsphereVolume",
    },
    "VolumeProjection": {"podCertificate"},
    "PodSecurityContext": {"windowsOptions"},
    "SecurityContext": {"windowsOptions"},
}  # fmt: skip

# Kubernetes' reference names these allowed values. They are missing in the OpenAPI description.
CHOICES = {
    "AppArmorProfile.type": ("Localhost", "RuntimeDefault", "Unconfined"),
    "Container.imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "Container.restartPolicy": ("Always", "Never", "OnFailure"),
    "Container.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "ContainerPort.protocol": ("TCP", "UDP", "SCTP"),
    "HTTPGetAction.scheme": ("HTTP", "HTTPS"),
    "ImageVolumeSource.pullPolicy": ("Always", "IfNotPresent", "Never"),
    "LabelSelectorRequirement.operator": ("In", "NotIn", "Exists", "DoesNotExist"),
    "NetworkPolicyPort.protocol": ("TCP", "UDP", "SCTP"),
    "NodeSelectorRequirement.operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "PersistentVolumeClaimSpec.volumeMode": ("Block", "Filesystem"),
    "PodSecurityContext.fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "PodSecurityContext.seLinuxChangePolicy": ("MountOption", "Recursive"),
    "PodSecurityContext.supplementalGroupsPolicy": ("Merge", "Strict"),
    "SeccompProfile.type": ("Localhost", "RuntimeDefault", "Unconfined"),
    "SecurityContext.procMount": ("Default", "Unmasked"),
    "Toleration.effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "Toleration.operator": ("Exists", "Equal"),
    "TopologySpreadConstraint.nodeAffinityPolicy": ("Honor", "Ignore"),
    "TopologySpreadConstraint.nodeTaintsPolicy": ("Honor", "Ignore"),
    "TopologySpreadConstraint.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "VolumeMount.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.recursiveReadOnly": ("Disabled", "IfPossible", "Enabled"),
}


def extract() -> str:
    """Return the text of kubernetes.json: one definition per line."""
    source = golang.module_dir("kubernetes", "k8s.io/kubernetes") / "api" / "openapi-spec" / "swagger.json"
    described = json.loads(source.read_text(encoding="utf-8"))["definitions"]
    found: dict[str, Any] = {}
    wanted = [PACKAGE + root for root in ROOTS] + [NETWORKING + root for root in NETWORKING_ROOTS]
    while wanted:
        full = wanted.pop()
        name = _short(full)
        if name not in found:
            entry = _without_omitted(name, described[full])
            found[name] = SPECIAL.get(name) or _closed(name, entry)
            if name not in SPECIAL:
                wanted += re.findall(r'"#/definitions/([^"]+)"', json.dumps(entry))
    lines = ",\n".join(f'"{name}": {json.dumps(found[name], separators=(",", ":"))}' for name in sorted(found))
    return f'{{"definitions": {{\n{lines}\n}}}}\n'


def _without_omitted(name: str, described: dict[str, Any]) -> dict[str, Any]:
    fields = described.get("properties", {}).items()
    kept = {field: entry for field, entry in fields if field not in OMITTED.get(name, ())}
    return {**described, "properties": kept} if kept else described


def _short(full: str) -> str:
    return full.rpartition(".")[2]


def _closed(name: str, described: dict[str, Any]) -> dict[str, Any]:
    """Return the definition without descriptions. It refuses unknown fields."""
    kept = {key: value for key, value in described.items() if key in ("type", "required")}
    if "properties" not in described:
        return kept
    fields = {field: _field(f"{name}.{field}", entry) for field, entry in described["properties"].items()}
    return {**kept, "additionalProperties": False, "properties": fields}


def _field(path: str, described: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in described:
        return {"$ref": f"#/definitions/{_short(described['$ref'])}"}
    kept: dict[str, Any] = {"type": described["type"]}
    if path in CHOICES:
        kept["enum"] = list(CHOICES[path])
    for inner in ("items", "additionalProperties"):
        if inner in described:
            kept[inner] = _field(f"{path}.{inner}", described[inner])
    return kept


if __name__ == "__main__":
    TARGET.write_text(extract(), encoding="utf-8")
    print(f"wrote {TARGET}")
