"""Test that the lab's image cache stays intact when a program changes files of an image."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lab.builds import buildah, images
from lab.builds.containers import run_in_image


def test_image_is_built_anew_where_a_layer_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "ARCHIVES", tmp_path / "archives")
    name, dockerfile = uuid.uuid4().hex, tmp_path / "Dockerfile"
    dockerfile.write_text(f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\nRUN echo kept >/{name}\n")
    built = images.image_from("changed", dockerfile)
    [in_layer] = buildah.STORE.glob(f"storage/overlay/*/diff/{name}")
    in_layer.write_text("changed\n")
    built.archive.unlink()

    image = images.image_from("changed", dockerfile)

    assert image.archive.exists()
    assert run_in_image(image.reference, ["cat", f"/{name}"]).stdout == "kept\n"


@pytest.mark.parametrize(
    ("named", "bundle"), [pytest.param("/etc/own.pem", "/etc/own.pem", id="named"), pytest.param("", "", id="default")]
)
def test_build_trusts_what_the_machine_trusts(monkeypatch: pytest.MonkeyPatch, named: str, bundle: str) -> None:
    monkeypatch.setenv("PIP_CERT", named)

    assert images._secrets() == ("--secret", f"id=ca-bundle,src={bundle or images.TRUSTED}")
