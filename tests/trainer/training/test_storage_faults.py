"""Test that runs whose data, checkpoints and output are in S3 finish, although the network is faulty."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.datasets.pictures import photographs, write_image_folder
from lab.s3.proxy import Fault, Proxy
from lab.waiting import wait_until
from tests.trainer.conftest import FORKED, ProgramInImage, tried_by
from tests.trainer.fixtures.faults import FAULTS

SAMPLES, EPOCHS = 48, 12
# Larger images would make the training slower, and the checkpoints larger.
SIZE = 32
# S3 is unreachable for longer than the 30 s that the watchdog allows for a step.
SECONDS_AWAY = 45
# In `make test`, the proxy injects only this fault after the outage: it cuts off the body of each response.
TRIED = "cut"


@pytest.fixture
def bucket(s3_server: Any, tmp_path: Path) -> str:
    """A bucket that contains images at data/."""
    client = s3_server.boto3_client()
    client.create_bucket(Bucket=(bucket := f"run-{time.monotonic_ns()}"))
    for part in ("train", "val"):
        write_image_folder(tmp_path / part, photographs(SAMPLES, size=SIZE, classes=3), suffix=".jpg")
    for path in tmp_path.rglob("*.jpg"):
        client.upload_file(str(path), bucket, f"data/{path.relative_to(tmp_path)}")
    return bucket


def run_to_the_end(program: ProgramInImage, bucket: str, env: dict[str, str], proxy: Proxy) -> None:
    places = ("--data", f"s3://{bucket}/data", "--checkpoint", f"s3://{bucket}/saved", "--output", f"s3://{bucket}/out")
    length = ("--epochs", str(EPOCHS), "--batch-size", "4", "--checkpoint-every", "0.5")

    run = program(
        *places,
        *length,
        env={**env, "AWS_ENDPOINT_URL_S3": proxy.endpoint},
        starter=FORKED.get(program.name),
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(rf"^finished: \d+ steps, {SAMPLES * EPOCHS} samples$", run.stdout, re.M)
    assert re.search(r"^test accuracy: [01]\.\d{4}$", run.stdout, re.M)


def assert_written(program: ProgramInImage, bucket: str, server: Any) -> None:
    """Assert that the bucket contains the HEAD of a finished run, a checkpoint and the model."""
    client = server.boto3_client()
    head = json.load(client.get_object(Bucket=bucket, Key="saved/HEAD")["Body"])
    assert head["state"] == "finished"
    assert client.get_object(Bucket=bucket, Key=f"saved/{head['checkpoint']}/manifest.json")
    assert client.get_object(Bucket=bucket, Key=f"out/{program.program.model}")["ContentLength"] > 1000


# Full matrix only: the next test injects the fault TRIED, and test_faults.py tests each fault separately.
@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_run_comes_to_its_end_through(
    fault: dict[str, Fault],
    program: ProgramInImage,
    bucket: str,
    s3_server: Any,
    s3_proxy: Proxy,
    s3_env: dict[str, str],
) -> None:
    with s3_proxy.fault(**fault):
        run_to_the_end(program, bucket, s3_env, s3_proxy)

        assert s3_proxy.faulted() >= min(20, float(fault.get("Times", 20)))
    assert_written(program, bucket, s3_server)


@contextmanager
def away_once_saved(bucket: str, server: Any, proxy: Proxy) -> Iterator[None]:
    """Stop the proxy once HEAD names a checkpoint. Later, start it again with the fault TRIED.

    Do not wait for another checkpoint, because the run may finish before it saves one.
    """
    client = server.boto3_client()

    def has_checkpoint() -> bool:
        listed = client.list_objects_v2(Bucket=bucket, Prefix="saved/HEAD").get("Contents")
        return bool(listed and json.load(client.get_object(Bucket=bucket, Key="saved/HEAD")["Body"])["checkpoint"])

    def go_and_come_back() -> None:
        wait_until("a checkpoint", has_checkpoint)
        proxy.stop()
        time.sleep(SECONDS_AWAY)
        proxy.start()
        proxy.set(**FAULTS[TRIED])

    thread = threading.Thread(target=go_and_come_back)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# All programs access S3 with the same code. While one rank of pytorch-ddp waits for the server, the other ranks use no
# processor time. Under mpirun they would.
@tried_by("pytorch-ddp")
def test_run_waits_for_a_server_that_is_away_and_goes_on_through_its_fault(
    program: ProgramInImage, bucket: str, s3_server: Any, s3_proxy: Proxy, s3_env: dict[str, str]
) -> None:
    # Without this delay, the training could end before the outage.
    s3_proxy.set(Delay=0.1)
    with away_once_saved(bucket, s3_server, s3_proxy):
        run_to_the_end(program, bucket, s3_env, s3_proxy)

    assert s3_proxy.faulted() >= 20
    assert_written(program, bucket, s3_server)
