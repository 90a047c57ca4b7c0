"""Test the trainer as the chart delivers it: under torchrun, in an image with the framework but not distrain."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.builds import images
from lab.builds.containers import run_in_image
from lab.waiting import free_port
from schemas import trainer
from tests.trainer.conftest import DIGITS_IN_IMAGE, OF_THIS_MACHINE

SCRIPTS = trainer.TARGET.parent
DELIVERED = "/opt/distrain/bin/distrain-trainer"
# OpenShift runs pods like this: the user id is not in the image's /etc/passwd, and the group is 0.
USER = "1000660000:0"


@pytest.fixture
def mounts(tmp_path: Path) -> dict[Path, str]:
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / trainer.TARGET.name).write_bytes(trainer.build())
    return {SCRIPTS: "/opt/distrain/bin", folder: "/opt/distrain/trainer"}


def test_delivered_trainer_trains_in_an_image_without_it(mounts: dict[Path, str], digits: Path) -> None:
    torchrun = ["torchrun", f"--master-port={free_port()}", "--nproc-per-node=1", DELIVERED, "distrain_trainer"]
    values = ["--framework=pytorch", "--epochs=1", "--data", DIGITS_IN_IMAGE, "--output=/tmp/out", "--checkpoint=/tmp"]

    run = run_in_image(
        images.trainer_environment("pytorch"),
        [*torchrun, *values],
        env=OF_THIS_MACHINE,
        mounts={digits: DIGITS_IN_IMAGE, **mounts},
        user=USER,
        timeout=240,
    )

    assert run.returncode == 0, run.stderr
    assert "test accuracy: " in run.stdout
    assert run.stderr == ""
