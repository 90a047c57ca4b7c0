"""Refuse a job resource whose fields have another form than in Kubernetes, such as a list instead of a mapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distrain.imports.ledger import Path, text

BLOCKS = {
    *("metadata", "spec", "runPolicy", "schedulingPolicy", "elasticPolicy", "template", "securityContext", "resources"),
    *("mpiReplicaSpecs", "pytorchReplicaSpecs", "tfReplicaSpecs", "mxReplicaSpecs", "emptyDir", "affinity"),
    *("capabilities", "seccompProfile", "resourcesPerNode", "trainingRuntimeSpec", "mlPolicy", "runtimeRef"),
    *("podGroupPolicy", "failurePolicy"),
}
# Mappings whose keys users choose, and whose values are scalars.
MAPS = {"labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels"}
LISTS_OF_BLOCKS = {
    *("containers", "initContainers", "env", "envFrom", "volumes", "volumeMounts", "tolerations", "ports"),
    *("imagePullSecrets", "topologySpreadConstraints", "replicatedJobs", "runtimePatches", "podTemplateOverrides"),
    *("podSpecOverrides", "targetJobs", "dependsOn", "volumeClaimPolicies"),
}
SINGLE = {
    *(
        "name",
        "image",
        "imagePullPolicy",
        "mountPath",
        "medium",
        "sizeLimit",
        "workingDir",
        "restartPolicy",
        "namespace",
    ),
    *("replicas", "minReplicas", "maxReplicas", "maxRestarts", "slotsPerWorker", "nprocPerNode", "nProcPerNode"),
    *("runAsUser", "cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend"),
    *("mpiImplementation", "managedBy", "queue", "priorityClass", "serviceAccountName", "serviceAccount", "nodeName"),
    *("schedulerName", "runtimeClassName", "priorityClassName", "hostNetwork", "hostIPC", "hostPID", "jobMode"),
    *("privileged", "containerPort", "hostPort", "rdzvBackend"),
}
LISTS = {"command", "args", "add", "drop"}
BLOCK_LIST = "a list of mappings"
NOUNS = {
    dict: "a mapping of keys",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}
# Fields whose format is chosen by users or other programs, so that the import does not check it.
FREE = {"status", "managedFields"}


def mistakes(found: Any, path: Path = ()) -> Iterator[str]:
    """Yield path, finding and next step for each field that has a wrong form."""
    if isinstance(found, list):
        for index, each in enumerate(found):
            yield from mistakes(each, (*path, index))
    elif isinstance(found, dict):
        for key, value in found.items():
            # Under `volumes`, a key such as `image` is a type of volume. It has another form than the field `image` of
            # a container.
            wanted = "" if path[-2:-1] == ("volumes",) and isinstance(value, dict) else _wanted(key, value)
            if wanted:
                yield _words((*path, key), value, wanted)
            elif key not in MAPS and key not in FREE:
                yield from mistakes(value, (*path, key))


def _words(path: Path, value: Any, wanted: str) -> str:
    """Return a message with the path of a value that has a wrong form, the form found, and what to write instead.

    If the value is a list, the message is about the first item with a wrong form.
    """
    if isinstance(value, list) and wanted.startswith("a list"):
        is_block = wanted == BLOCK_LIST
        kinds = (dict,) if is_block else (str, int, float, bool)
        index = next(index for index, each in enumerate(value) if not isinstance(each, kinds))
        path, value, wanted = (*path, index), value[index], "a mapping of keys" if is_block else "a word"
    return f"{text(path)}: is {NOUNS.get(type(value), 'null')}; write {wanted} there"


def _wanted(key: str, value: Any) -> str:
    """Return the form that the field must have, or an empty text if the value has this form."""
    if value is None:
        return ""
    if key in BLOCKS:
        return "" if isinstance(value, dict) else "a mapping of keys"
    if key in MAPS:
        is_map = isinstance(value, dict) and not any(isinstance(each, dict | list) for each in value.values())
        return "" if is_map else "a mapping of keys with single values"
    if key in LISTS_OF_BLOCKS:
        return "" if isinstance(value, list) and all(isinstance(each, dict) for each in value) else BLOCK_LIST
    if key in SINGLE:
        return "a single value" if isinstance(value, dict | list) else ""
    if key in LISTS:
        is_list = isinstance(value, list) and not any(isinstance(each, dict | list | None) for each in value)
        return "" if is_list else "a list of words"
    return ""
