"""Test that a rank that waits for slow input is not mistaken for a rank that hangs."""

from __future__ import annotations

import re

import pytest

from tests.trainer.conftest import FORKED, SCRIPTS, ProgramInImage


# TensorFlow's program with parameter servers is not tested, because there only the chief detects ranks that hang. `make
# test` tries only pytorch-ddp: under mpirun, the rank that waits would keep a processor busy.
@pytest.mark.parametrize(
    "program",
    [
        "pytorch-ddp",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("tensorflow-horovod", "pytorch-horovod", "mxnet-horovod", "mxnet-kvstore")
        ),
    ],
    indirect=True,
)
def test_rank_that_waits_for_its_input_is_waited_for_by_all(program: ProgramInImage) -> None:
    run = program(
        *("--steps=12", "--batch-size=2", "--log-every=1", "--checkpoint=/tmp/checkpoints"),
        starter=FORKED.get(program.name),
        script="/slow.py",
        mounts={SCRIPTS / "faults/slow_input.py": "/slow.py"},
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^12\timages/sec: ", run.stdout, re.MULTILINE)
