"""Test what the trainer does before a framework's program starts."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import ModuleType

import pytest

from distrain_trainer import __main__, packages
from distrain_trainer.config import parse
from distrain_trainer.data import load
from distrain_trainer.errors import ArgumentError


def test_garbage_is_collected_while_training_and_not_while_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    program, collects = ModuleType("program"), {}
    monkeypatch.setitem(sys.modules, "program", program)

    def find(_: object) -> str:
        collects["loading"] = gc.isenabled()
        return "program"

    monkeypatch.setattr(__main__, "program_of", find)
    monkeypatch.setattr(program, "main", lambda *_: collects.update(training=gc.isenabled()), raising=False)

    __main__.main(["--steps=1"])
    gc.unfreeze()

    assert collects == {"loading": False, "training": True}


@pytest.mark.parametrize(
    ("arguments", "package", "value"),
    [
        (["--data=s3://b/digits"], "boto3", "data.uri"),
        (["--output=s3://b/out"], "boto3", "output.uri"),
        (["--checkpoint=s3://b/saved"], "boto3", "checkpoint.uri"),
        (["--metrics-port=9400"], "prometheus-client", "trainer.metrics"),
        (["--output=/out", "--tensorboard"], "tensorboardx", "trainer.tensorboard"),
    ],
)
def test_missing_package_is_named_with_the_value_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], package: str, value: str
) -> None:
    held = set(packages.MODULES.values()) - {packages.MODULES[package]}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in held or None)

    with pytest.raises(ArgumentError) as refused:
        __main__.require_packages(parse(["--steps=1", *arguments]))

    assert str(refused.value) == (
        f"{value}: needs the Python package {package}, which this image does not hold; set trainer.install=[{package}] "
        "with trainer.delivery: chart, or image.repository to an image that holds it"
    )


def test_run_without_s3_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    __main__.require_packages(parse(["--steps=1", "--output=/out", "--checkpoint=/saved"]))


def test_images_need_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ArgumentError, match=r"^data\.uri: needs the Python package pillow, "):
        load(parse(["--epochs=1", f"--data={tmp_path}"]))
