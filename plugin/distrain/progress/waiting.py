"""Explain why a container does not run: its image, a missing object such as a Secret, or repeated early exits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from distrain import kube
from distrain.progress import causes
from distrain.progress.containers import cannot_run, ends_of, image_of, is_first
from distrain.progress.start import events_of, one_line, statuses
from distrain.workload.kinds import INIT_CONTAINERS

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# If one of these is the reason why a container waits, the container will never start.
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
# Kubelet's event about Secrets of imagePullSecrets that do not exist (pkg/kubelet/kubelet_pods.go).
NO_PULL_SECRET = re.compile(r"^Unable to retrieve some image pull secrets \((?P<names>[^)]+)\)")
# What container runtimes and registries say to a request without the right login.
UNAUTHORIZED = re.compile(
    r"unauthorized|authorization failed|denied|no basic auth credentials|forbidden", re.IGNORECASE
)
UNREACHABLE = re.compile(
    r"no such host|connection refused|i/o timeout|network is unreachable|server misbehaving|deadline exceeded|x509"
)
MISSING = re.compile(r"not found|manifest unknown|name unknown", re.IGNORECASE)
NO_KEY = re.compile(r"^couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) [^/]+/(?P<name>\S+)$")
# What the user should do if a container ends soon after each start.
SEE_LOG = "see its log"
NEVER_PULLED = "ErrImageNeverPull"


class Waiting(Struct, frozen=True):
    """Why a container waits. `final` means that waiting would not help."""

    container: str
    words: str
    final: bool = False


def causes_of(pod: kube.Pod, events: Iterable[kube.Event], s3_secret: str) -> Iterator[Waiting]:
    """Yield why kubelet cannot start containers of the pod. `s3_secret` is the value s3.secretName."""
    told = [one_line(event.message) for event in events_of(pod.metadata.uid, events)]
    for status in statuses(pod):
        waiting = status.state and status.state.waiting
        reason = waiting.reason if waiting else None
        if not waiting or not reason:
            continue
        if reason in IMAGE_REASONS:
            yield Waiting(status.name, _cannot_pull(status, waiting, pod, told), reason in HOPELESS_REASONS)
        elif reason in CONFIG_REASONS and (words := cannot_run(pod, status, waiting.message)):
            yield Waiting(status.name, words, final=True)
        elif reason in CONFIG_REASONS:
            yield Waiting(status.name, _cannot_start(waiting, pod, s3_secret))
        elif reason == "CrashLoopBackOff":
            words = f"{pod.metadata.name}: {_named(pod, status)}starts and ends again and again: {end_of(status)}"
            yield Waiting(status.name, f"{words}; {SEE_LOG}")


def end_of(status: kube.ContainerStatus) -> str:
    """Describe how a container ended last, with its exit code."""
    for end in ends_of(status):
        return f"{causes.quoted(end.message or end.reason)} (exit code {end.exit_code})"
    return "no reason given"


def _named(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    init = [each.name for each in pod.spec.init_containers or ()]
    return f"its init container {status.name} " if status.name in init else ""


def _cannot_pull(status: kube.ContainerStatus, waiting: kube.Waiting, pod: kube.Pod, events: list[str]) -> str:
    message = one_line(waiting.message)
    if waiting.reason != "ErrImagePull":
        # During the back-off, kubelet's message no longer says why the registry refused the image, but its event still
        # does.
        message = next((each for each in reversed(events) if each.startswith("Failed to pull image")), message)
    why = causes.of_pull(message) or waiting.reason
    words = f"cannot pull {image_of(pod, status)}: {why}"
    if added := INIT_CONTAINERS.get(status.name):
        advice = f"the operator adds this container: give it another image with its {added.flag}"
        return f"{pod.metadata.name}: {words}; {advice}"
    absent = next((found["names"] for each in reversed(events) if (found := NO_PULL_SECRET.match(each))), "")
    if absent and UNAUTHORIZED.search(message):
        return (
            f"image.pullSecrets: {_place(absent, pod)}, and so the node {words}; create it there, or correct the name"
        )
    if not is_first(pod, status):
        return f"{pod.metadata.name}: {words}; correct the image of container {status.name}"
    return f"image.repository: {words}; {_pull_advice(message, waiting.reason or '')}"


def _place(names: str, pod: kube.Pod) -> str:
    return f"there is no Secret {names} in namespace {pod.metadata.namespace}"


def _pull_advice(message: str, reason: str) -> str:
    if UNAUTHORIZED.search(message):
        return "correct image.repository, or name a Secret with a login for this registry under image.pullSecrets"
    if UNREACHABLE.search(message):
        return "correct image.repository, or let the node reach the registry"
    if reason == NEVER_PULLED:
        return "load the image into the node, or set image.pullPolicy to IfNotPresent"
    if MISSING.search(message):
        return "correct image.repository or image.tag, or push the image"
    return "correct image.repository or image.tag, or name a registry login under image.pullSecrets"


def _cannot_start(waiting: kube.Waiting, pod: kube.Pod, s3_secret: str) -> str:
    words = causes.quoted(waiting.message or waiting.reason)
    name, namespace = pod.metadata.name, pod.metadata.namespace
    if found := NO_KEY.match(words):
        path = "s3.secretName" if found["name"] == s3_secret else name
        kind = found["kind"]
        return (
            f"{path}: the {kind} {found['name']} of namespace {namespace} has no key {found['key']}; add the key to it"
        )
    if s3_secret and f'secret "{s3_secret}" not found' in words:
        return f"s3.secretName: {words} in namespace {namespace}; create it there, or correct the name"
    return f"{name}: cannot start: {words}; correct the values, or create what they name"
