"""Explain from the events about a pod why kubelet does not start its containers.

The messages come from kubelet (pkg/kubelet/volumemanager, pkg/kubelet/kubelet_pods.go, pkg/volume), from the controller
that attaches volumes, and from the container runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from distrain import kube
from distrain.progress.causes import Cause, by_rules, quoted
from distrain.progress.start import events_of, shortened

MOUNT = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
SANDBOX = ("FailedCreatePodSandBox", "NetworkNotReady")
VOLUME = re.compile(r'^(?:MountVolume\.\w+|AttachVolume\.\w+|Multi-Attach error)[^"]* for volume "(?P<volume>[^"]+)"')
# These messages name no cause: kubelet's summary after two minutes, and a message about a delay of kubelet's caches.
SUMMARY = re.compile(r"^Unable to (?:attach or )?mount volumes: |failed to sync \w+ cache: timed out")
# These rules are for messages about a volume.
RULES = (
    (
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found$',
        'volume {volume}: {kind} "{name}" is not in namespace {namespace}',
        "create it there, or correct the name in volumes",
    ),
    (
        r"references non-existent (?:secret|config) key: (?P<key>.*)$",
        "volume {volume}: its Secret or ConfigMap has no key {key}",
        "add the key, or correct items in volumes",
    ),
    (
        r"hostPath type check failed: (?P<path>\S+) is not a (?P<what>.*)$",
        "volume {volume}: {path} on the node is not a {what}",
        "make it on each node, or correct hostPath in volumes",
    ),
    (
        r"driver name (?P<driver>\S+) not found in the list of registered CSI drivers$",
        "volume {volume}: the CSI driver {driver} does not run on the node",
        "install it, or wait until it has started there",
    ),
    (
        r"Volume is already (?:exclusively attached|used by)(?P<rest>.*)$",
        "volume {volume}: another node has it attached{rest}",
        "end the pod that uses it, or use a claim that several nodes may mount (ReadWriteMany)",
    ),
)


def cause_of(pods: Sequence[kube.Pod], events: Iterable[kube.Event]) -> Cause | None:
    """Return why the first pod that has a node does not start. The newest event that names a cause decides."""
    told = list(events)
    for pod in pods:
        if pod.status.phase == "Pending" and (cause := _of_pod(pod, list(events_of(pod.metadata.uid, told)))):
            return cause
    return None


def _of_pod(pod: kube.Pod, events: Sequence[kube.Event]) -> Cause | None:
    name = pod.metadata.name
    for event in reversed(events):
        message = quoted(event.message)
        if event.reason in MOUNT and not SUMMARY.search(message):
            return _of_volume(pod, message)
        if event.reason in SANDBOX:
            return Cause(
                f"{name}: the node cannot make the pod's network or sandbox: {shortened(message)}",
                "wait; if this lasts, check the node's network plugin or container runtime",
            )
    return None


def _of_volume(pod: kube.Pod, message: str) -> Cause:
    found = VOLUME.match(message)
    volume = found["volume"] if found else ""
    known = by_rules(RULES, message, volume=volume, namespace=pod.metadata.namespace)
    cause = known or Cause(message, "correct the volume in volumes, or check its server")
    return Cause(f"{pod.metadata.name}: {cause.why}", cause.next)
