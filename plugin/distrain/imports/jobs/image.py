"""Convert the images of a job to one image for all pods, and find out which framework the image contains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from distrain.imports.draft import Draft
from distrain.imports.jobs.spread import Role
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting
from distrain.values.placeholder import IMAGE

LATEST = "latest"
# The digest at the end of an image's name, with any hash algorithm.
DIGEST = re.compile(r"[a-z0-9+._-]+:[0-9a-fA-F]{32,}")
NO_IMAGE = "is not an image's name: no digest follows @; put a registry's login into a Secret of image.pullSecrets"
# Pairs of a word and a framework. If the word occurs in an image's name or in a command, the job trains with this
# framework. The first pair whose word occurs decides.
FRAMEWORKS = (
    ("mxnet", "mxnet"),
    ("pytorch", "pytorch"),
    ("torch", "pytorch"),
    ("deepspeed", "pytorch"),
    ("accelerate", "pytorch"),
    ("lightning", "pytorch"),
    ("tensorflow", "tensorflow"),
    ("keras", "tensorflow"),
)


def split_image(name: str) -> tuple[str, str, str]:
    """Return repository, tag and digest of an image's name."""
    name, _, digest = name.partition("@")
    tag = PurePosixPath(name).name.partition(":")[2]
    return name.removesuffix(f":{tag}") if tag else name, tag, digest


def carry_image(draft: Draft, roles: Sequence[Role]) -> None:
    """Set the image of the workers, its pull policy, and the Secrets and ServiceAccount of all pods."""
    first, *others = sorted(roles, key=lambda role: role.section != "workers")
    set_image(draft, str(draft.ledger.get((*first.place, "image"), "")), (*first.place, "image"))
    _pull_policy(draft, (*first.place, "imagePullPolicy"))
    for role in others:
        for key in ("image", "imagePullPolicy"):
            _same(draft, (*first.place, key), (*role.place, key), f"all pods have the image of the {first.name}")
    _pull_secrets(draft, roles)
    _account(draft, [first, *others])


def set_image(draft: Draft, name: str, path: Path) -> None:
    if not name:
        draft.choose(("image", "repository"), IMAGE, "the source names no image")
        return
    repository, tag, digest = split_image(name)
    if "@" in name and not DIGEST.fullmatch(digest):
        draft.choose(("image", "repository"), IMAGE, "the source's is no name of an image")
        draft.lose(path, NO_IMAGE)
        return
    draft.carry(("image", "repository"), repository, path)
    if tag or not digest:
        draft.carry(("image", "tag"), tag or LATEST, path, why="" if tag else "no tag means latest")
    if digest:
        draft.carry(("image", "digest"), digest, path)
    elif (tag or LATEST) == LATEST and name != IMAGE:
        draft.note(f"image.tag: {quoting.value(name)} may be another image at the next run; pin it with image.digest")


def framework_of(draft: Draft, roles: Sequence[Role]) -> tuple[str, str]:
    """Return the framework of an MPIJob, and the reason.

    A wrong framework does little harm if the user has set a command.
    """
    for role in roles:
        words = [draft.ledger.get((*role.place, "image"), ""), *_words(draft, role)]
        for word, framework in FRAMEWORKS:
            if any(word in str(each).lower() for each in words):
                return framework, f'"{word}" in the image or the command of the {role.name}'
    return "tensorflow", "nothing names the framework"


def _words(draft: Draft, role: Role) -> list[str]:
    found = [draft.ledger.get((*role.place, key), []) for key in ("command", "args")]
    return [str(word) for words in found if isinstance(words, list) for word in words]


def _pull_policy(draft: Draft, path: Path) -> None:
    policy = draft.ledger.get(path)
    if policy:
        draft.carry(("image", "pullPolicy"), policy, path)
    elif draft.value(("image", "tag")) == LATEST and not draft.has(("image", "digest")):
        draft.choose(("image", "pullPolicy"), "Always", "Kubernetes' default for the tag latest")


def _same(draft: Draft, first: Path, other: Path, why: str) -> None:
    if draft.ledger.get(first) == draft.ledger.get(other):
        draft.know(other)
    else:
        draft.lose(other, why)


def _pull_secrets(draft: Draft, roles: Sequence[Role]) -> None:
    names: list[str] = []
    paths: list[Path] = []
    for role in roles:
        place = (*role.template, "spec", "imagePullSecrets")
        for index, each in enumerate(draft.ledger.get(place, [])):
            name = each.get("name") if isinstance(each, dict) else None
            if name and name not in names:
                names.append(name)
                paths.append((*place, index))
            elif name:
                draft.know((*place, index))
    if names:
        draft.carry(("image", "pullSecrets"), names, *paths)


def _account(draft: Draft, roles: Sequence[Role]) -> None:
    """Set one ServiceAccount for all pods, as the chart requires: the account of the first role that has one."""
    target = ("serviceAccountName",)
    for role in roles:
        # serviceAccount is the older name of serviceAccountName, which takes precedence.
        for key in ("serviceAccountName", "serviceAccount"):
            path = (*role.template, "spec", key)
            name = draft.ledger.get(path)
            if name and not draft.has(target):
                draft.carry(target, name, path)
            elif name == draft.value(target):
                draft.know(path)
            draft.lose(path, "all pods of a job have one ServiceAccount")
