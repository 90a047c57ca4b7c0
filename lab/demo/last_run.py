"""Find and remove what an earlier demo has left: a release, and files in the bucket. Nothing else is removed."""

from __future__ import annotations

import json
from typing import Any

from lab.demo.site import RELEASE, Site
from lab.errors import LabError

FOLDERS = ("models", "checkpoints")
LEFT_RELEASE = f"release {RELEASE}"
ANOTHER = "set NAMESPACE or S3_BUCKET to another one, or remove it yourself"


def left(site: Site) -> list[str]:
    """Describe the release and files that an earlier demo has left.

    Raise LabError if a release or files of the same name do not come from a demo.
    """
    values = _values(site)
    if values is not None and not _is_demo(site, values):
        raise LabError(f"release {RELEASE} in namespace {site.namespace} was not made by this demo; {ANOTHER}")
    files = {folder: site.stored(folder) for folder in FOLDERS} if site.has_bucket() else {}
    places = [f"{len(found)} files at s3://{site.bucket}/{site.prefix(name)}" for name, found in files.items() if found]
    if places and values is None and not _is_marked(site):
        raise LabError(f"{places[0]} were not made by this demo; {ANOTHER}")
    return [*([LEFT_RELEASE] if values is not None else []), *places]


def remove(site: Site) -> None:
    """Remove what an earlier demo has left, so that it cannot be mistaken for this demo's result.

    Then mark the bucket's folder as a demo's folder.
    """
    if LEFT_RELEASE in left(site):
        site.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
    for folder in FOLDERS:
        for key in site.stored(folder):
            site.s3.delete_object(Bucket=site.bucket, Key=key)
    site.s3.put_object(Bucket=site.bucket, Key=_mark(site), Body=b"")


def _values(site: Site) -> dict[str, Any] | None:
    """Return the values of the release, or None if the release does not exist."""
    try:
        return json.loads(site.helm_says("get", "values", RELEASE, "-o", "json")) or {}
    except LabError as error:
        if "not found" in str(error):
            return None
        raise


def _is_demo(site: Site, values: dict[str, Any]) -> bool:
    uris = [(values.get(part) or {}).get("uri") for part in ("data", "output", "checkpoint")]
    return uris == [f"s3://{site.bucket}/{folder}" for folder in ("digits", *FOLDERS)]


def _is_marked(site: Site) -> bool:
    return bool(site.s3.list_objects_v2(Bucket=site.bucket, Prefix=_mark(site)).get("Contents"))


def _mark(site: Site) -> str:
    return f"demo/{site.namespace}/made-by-make-demo"
