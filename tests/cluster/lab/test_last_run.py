"""Test that the demo removes what an earlier demo left, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from lab.demo import last_run
from lab.demo.site import Site
from lab.errors import LabError

DEMO = {part: {"uri": f"s3://bucket/{name}"} for part, name in
        {"data": "digits", "output": "models", "checkpoint": "checkpoints"}.items()}  # fmt: skip
MODEL, HEAD, OTHER = "models/team/demo/model.pt", "checkpoints/team/demo/HEAD", "models/team/other/model.pt"


class FakeS3:
    """A fake S3 server with one bucket."""

    def __init__(self, *keys: str) -> None:
        self.keys = {*keys}

    def list_buckets(self) -> dict[str, Any]:
        return {"Buckets": [{"Name": "bucket"}]}

    def list_objects_v2(self, **asked: str) -> dict[str, Any]:
        return {"Contents": [{"Key": key, "Size": 1} for key in self.keys if key.startswith(asked["Prefix"])]}

    def delete_object(self, **asked: str) -> None:
        self.keys.remove(asked["Key"])

    def put_object(self, **asked: Any) -> None:
        self.keys.add(asked["Key"])


@dataclass(frozen=True)
class FakeSite(Site):
    """A fake cluster. The release `demo` is installed in this cluster if `values` is not None."""

    values: dict[str, Any] | None = None
    called: list[str] = field(default_factory=list)

    def helm_says(self, *arguments: str) -> str:
        if self.values is None:
            raise LabError("Error: release: not found")
        return json.dumps(self.values)

    def helm(self, *arguments: str) -> None:
        self.called.append(arguments[0])


def _site(*keys: str, values: dict[str, Any] | None = None) -> FakeSite:
    return FakeSite("pytorch", "config", "team", FakeS3(*keys), "https://s3", "bucket", "keys", "image", values=values)


def test_last_demo_is_named_and_removed() -> None:
    site = _site(MODEL, HEAD, OTHER, values=DEMO)

    left = last_run.left(site)
    last_run.remove(site)

    assert left == [
        "release demo",
        "1 files at s3://bucket/models/team/demo/",
        "1 files at s3://bucket/checkpoints/team/demo/",
    ]
    assert site.called == ["uninstall"]
    assert site.s3.keys & {MODEL, HEAD, OTHER} == {OTHER}


def test_files_of_a_demo_whose_release_is_gone_are_known() -> None:
    site = _site()
    last_run.remove(site)
    site.s3.keys.add(MODEL)

    last_run.remove(site)

    assert MODEL not in site.s3.keys
    # Helm would print that the release was uninstalled.
    assert site.called == []


@pytest.mark.parametrize(
    ("keys", "values", "words"),
    [
        pytest.param([MODEL], {"image": {"tag": "1"}}, "release demo in namespace team was not made", id="release"),
        pytest.param([MODEL], None, "1 files at s3://bucket/models/team/demo/ were not made", id="files"),
    ],
)
def test_what_no_demo_has_made_stays(keys: list[str], values: dict[str, Any] | None, words: str) -> None:
    site = _site(*keys, values=values)

    with pytest.raises(LabError, match=words):
        last_run.remove(site)

    assert site.called == []
    assert site.s3.keys == {*keys}
