"""Test the patch of Horovod that the images contain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer.conftest import SCRIPTS, mpirun_of, run_in_image


# Full matrix only: the images contain the patch, so only a change of the images can lose it.
@pytest.mark.full
def test_broadcast_of_mxnet_reads_no_name_that_was_freed(digits: Path) -> None:
    # These variables make malloc overwrite freed memory immediately, and make Horovod run each broadcast without a
    # pause.
    env = {"MALLOC_PERTURB_": "165", "HOROVOD_CYCLE_TIME": "0"}
    script = {SCRIPTS / "jobs/broadcasts.py": "/broadcasts.py"}

    run = run_in_image("mxnet", [*mpirun_of(1), "/broadcasts.py"], digits, env=env, mounts=script, timeout=120)

    assert run.returncode == 0, run.stderr
