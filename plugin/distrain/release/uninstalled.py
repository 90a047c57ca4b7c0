"""Find objects of a release that someone uninstalled while Helm installed or upgraded it.

Helm does not notice this. It creates the missing objects, and then fails, because the Secret that records the revision
is gone. No release contains these objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import METADATA, Cluster
from distrain.errors import UnreachableError
from distrain.helm.releases import Status
from distrain.kube.resource import Resource, kubectl_type
from distrain.release.changes import named, objects
from distrain.release.owner import HELMS_OWN
from distrain.release.transaction import Release
from distrain.workload.wording import listed

KEEP = {"helm.sh/resource-policy": "keep"}


def is_gone(status: Status | None) -> bool:
    """Tell whether there is no release, or it is uninstalled, or `helm uninstall` is still working."""
    return status is None or status.word in ("uninstalled", "uninstalling")


def left(cluster: Cluster, release: Release, manifest: str) -> str:
    """Return which objects of the manifest exist without a release, and the command that deletes them, or ""."""
    try:
        found = list(_left(cluster, release, manifest))
    except UnreachableError as error:
        finds = f"`helm distrain doctor {release.target.helm_flags}` finds a job that is left"
        return f"what is left of it cannot be read: {error}; {finds}"
    if not found:
        return ""
    objects_left = " ".join(f"{kubectl_type(each)}/{each.name}" for each in found)
    deletion = f"`kubectl {release.target.kubectl_flags} delete {objects_left}` deletes what is left"
    return f"left without a release: {listed([*map(named, found)])}; {deletion}"


def _left(cluster: Cluster, release: Release, manifest: str) -> Iterator[Resource]:
    """Yield the objects of the manifest that Helm has created for this release, and that nobody is deleting.

    An uninstallation keeps an object with KEEP, so it is not left by mistake: it may be a volume claim of the user.
    """
    for each, document in objects(manifest).items():
        if KEEP.items() <= (document["metadata"].get("annotations") or {}).items():
            continue
        path = paths.of_kind(each.api_version, each.kind, release.target.namespace, each.name)
        found = cluster.read_optional(path, kube.Named, named(each), METADATA)
        is_left = found and not found.metadata.deletion_timestamp
        if found and is_left and (found.metadata.annotations or {}).get(HELMS_OWN) == release.name:
            yield each
