"""Turn the volumes and mounts of a pod into values; /dev/shm becomes workers.shm."""

from __future__ import annotations

import posixpath
from typing import Any

from distrain.imports.draft import Draft, Part
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting
from distrain.kube.quantities import units

SHM = "/dev/shm"
GIBIBYTE = 2**30
# Names of volumes and mount paths that the chart adds to its own pods: templates/validate/_validate-volumes.tpl.
TAKEN = {
    "scripts",
    "tmp",
    "shm",
    "checkpoints",
    "ssh-auth",
    "mpi-job-config",
    "mpi-job-kubectl",
    "s3-ca",
    "trainer",
    "user",
}
FOLDERS = {
    "/tmp": "the chart gives each pod a /tmp of its own",
    "/": "nothing can be mounted there",
    "/etc/mpi": "the operator mounts its list of hosts there",
    "/opt/kube": "the operator mounts kubectl there",
    "/opt/distrain/bin": "the chart mounts its scripts there",
    "/etc/passwd": "the chart may mount its own there",
}
SSH = ("/root/.ssh", "/home/distrain/.ssh")


def parts_of(draft: Draft, section: str, pod: Path, container: Path) -> dict[str, Part]:
    """Return the volumes and mounts, except those of /dev/shm, which become workers.shm."""
    volumes = draft.ledger.get((*pod, "volumes"), [])
    mounts = draft.ledger.get((*container, "volumeMounts"), [])
    if not all(map(_may_be_named, (*volumes, *mounts))):
        return {}
    kept = Part([], ())
    for index, mount in enumerate(mounts):
        path = (*container, "volumeMounts", index)
        folder = posixpath.normpath(str(mount.get("mountPath", "")))
        if folder == SHM:
            _carry_shm(draft, section, volumes, mount, pod, path)
        elif why := _taken(folder):
            draft.lose(path, why)
        else:
            kept = Part([*kept.value, _renamed(mount)], (*kept.paths, path))
    return {"volumes": _volumes(draft, pod, volumes, mounts, kept.value), "volumeMounts": kept}


def _may_be_named(each: Any) -> bool:
    """Tell whether a volume or a mount is a map whose name, if any, is a scalar.

    Other volumes and mounts cannot be looked up by name.
    """
    return isinstance(each, dict) and not isinstance(each.get("name"), (dict, list))


def _taken(folder: str) -> str:
    if folder in SSH:
        return "the SSH key: the operator, or for job.kind Plain the chart, makes one and mounts it"
    return FOLDERS.get(folder, "")


def _volumes(draft: Draft, pod: Path, volumes: list[Any], mounts: list[Any], kept: list[Any]) -> Part:
    """Return the volumes, except each volume whose mounts are all left out."""
    names = {mount["name"] for mount in kept if "name" in mount}
    mounted = {mount.get("name") for mount in mounts}
    found = Part([], ())
    for index, volume in enumerate(volumes):
        path = (*pod, "volumes", index)
        renamed = _renamed(volume)
        if volume.get("name") in mounted and renamed.get("name") not in names:
            if not draft.ledger.is_settled(path):
                draft.lose(path, "its mount is left out")
        else:
            found = Part([*found.value, renamed], (*found.paths, path))
    return found


def _renamed(named: dict[str, Any]) -> dict[str, Any]:
    name = named.get("name")
    return {**named, "name": f"own-{name}"} if name in TAKEN else named


def _note_small(draft: Draft, size: Any) -> None:
    """Add a note if /dev/shm has less than 1Gi for each rank, because `helm distrain check` will warn of it."""
    ranks = max(1, draft.value(("workers", "gpus"), 1))
    try:
        is_small = units("memory", size) < ranks * GIBIBYTE
    except ValueError:
        return
    if is_small and draft.value(("workers", "gpus"), 0):
        draft.note(
            f"workers.shm: {quoting.value(size)} is small for {ranks} ranks; NCCL and data loaders want 1Gi for each"
        )


def _carry_shm(draft: Draft, section: str, volumes: list[Any], mount: Any, pod: Path, path: Path) -> None:
    index = next((number for number, each in enumerate(volumes) if each.get("name") == mount.get("name")), None)
    volume = volumes[index] if index is not None else {}
    memory = volume.get("emptyDir") if isinstance(volume.get("emptyDir"), dict) else None
    if section != "workers" or memory is None or memory.get("medium") != "Memory":
        if section == "workers":
            draft.note(
                f"{draft.place(path)}: /dev/shm is no memory of the pod's own; workers.shm sets its size here, else 1Gi"
            )
        draft.lose(path, "the chart mounts /dev/shm itself, in the workers; workers.shm is its size")
        return
    assert index is not None
    place = (*pod, "volumes", index)
    if size := memory.get("sizeLimit"):
        _note_small(draft, size)
        draft.carry(("workers", "shm"), size, (*place, "emptyDir", "sizeLimit"), why="mounted at /dev/shm")
    elif whole := draft.value(("workers", "memory")):
        draft.carry(("workers", "shm"), whole, place, why="no limit, so all memory of the pod")
    else:
        ranks = max(1, draft.value(("workers", "gpus"), 1))
        draft.carry(("workers", "shm"), f"{ranks}Gi", place, why="no limit there; 1Gi for each rank")
        draft.note(
            f"{draft.place(place)}: /dev/shm has no limit there, half of the node's memory; here workers.shm {ranks}Gi"
        )
    draft.know(place, path)
