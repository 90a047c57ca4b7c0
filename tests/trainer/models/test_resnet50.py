"""Test how ResNet50's weights start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix import one_of
from tests.trainer.conftest import SCRIPTS, run_in_image


@pytest.mark.parametrize("framework", one_of(["mxnet", "tensorflow", "pytorch"]))
def test_each_residual_block_returns_its_input_at_the_start(framework: str, digits: Path) -> None:
    script = SCRIPTS / "weights/residual_blocks.py"

    run = run_in_image(
        framework,
        ["python3", "/residual_blocks.py", framework],
        digits,
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        mounts={script: "/residual_blocks.py"},
        timeout=300,
    )

    # ResNet50 has 16 residual blocks and 53 normalization layers.
    assert run.stdout.splitlines()[-1:] == ["[((0.0, 0.0), 16), ((1.0, 1.0), 37)]"], run.stderr
