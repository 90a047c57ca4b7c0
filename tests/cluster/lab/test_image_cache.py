"""Test that an image is built anew after its files have changed, and that two processes can load it at a time."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.builds import buildah, images
from lab.builds.containers import run_in_image
from lab.cluster import client


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


def test_image_is_loaded_once_if_two_ask_for_it_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def ctr(*arguments: str) -> str:
        found = done[-1] if done else ""
        if arguments[:2] == ("images", "label"):
            time.sleep(0.2)  # Without a lock, the other one begins to load meanwhile.
            done.append(arguments[3])
        return found

    monkeypatch.setattr(client, "_ctr", ctr)
    monkeypatch.setattr(client, "STATE_DIR", tmp_path)
    image = images.Image("distrain/some:lab", tmp_path / "some-0123.tar")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(client.load_image, [image, image]))

    assert done == ["distrain.dev/archive=some-0123.tar"]
