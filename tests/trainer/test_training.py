"""Whole runs: mpirun on loopback inside the trainer's image."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.digits import write_idx

from .conftest import DIGITS_IN_IMAGE, Mpirun

TRAINER = ("python3", "-m", "distrain_trainer")
DIGITS = ("--data", DIGITS_IN_IMAGE, "--batch-size", "32")
SCRIPTS = Path(__file__).parent


def assert_refused(run: subprocess.CompletedProcess[str], message: str) -> None:
    """Assert that a run ended on one line that says `message`, and on nothing worse."""
    lines = [line for line in run.stderr.splitlines() if line.startswith("distrain: ")]
    assert run.returncode == 2, run.stderr
    assert len(lines) == 1, run.stderr
    assert re.match(f"distrain: {message}", lines[0])
    assert run.stderr.startswith("distrain: ")
    assert "Traceback" not in run.stderr


def test_synthetic_run_prints_its_steps_and_the_total_of_all_ranks(mpirun: Mpirun) -> None:
    run = mpirun(*TRAINER, "--steps", "25", "--batch-size", "16", "--log-every", "10")

    assert run.returncode == 0, run.stderr
    header, *steps, rule, total, rule_below = run.stdout.splitlines()
    assert header == "Step\tImg/sec\ttotal_loss"
    assert [line.split("\t")[0] for line in steps] == ["6", "10", "20", "25"]
    assert all(
        re.fullmatch(r"\d+\timages/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)\t\d+\.\d{3}", line) for line in steps
    )
    assert rule == rule_below == "-" * 64
    rate_of_rank_0 = float(steps[-1].split()[2])
    assert float(total.removeprefix("total images/sec: ")) == pytest.approx(2 * rate_of_rank_0, rel=0.01)
    assert run.stderr == ""


def test_half_precision_without_a_gpu_is_said_and_trains_on(mpirun: Mpirun) -> None:
    run = mpirun(*TRAINER, "--steps", "2", "--batch-size", "4", "--precision", "fp16", ranks=1)

    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("trainer.precision: fp16 needs a GPU and none is visible; training in fp32\n")


def test_digits_from_s3_are_learnt_and_the_outcome_is_in_s3(
    mpirun: Mpirun, digits_uri: str, s3_server: Any, s3_env: dict[str, str]
) -> None:
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="runs")
    arguments = [
        "--batch-size",
        "32",
        "--epochs",
        "20",
        "--optimizer",
        "adam",
        "--learning-rate",
        "0.01",
        "--warmup",
        "20",
    ]

    run = mpirun(*TRAINER, *arguments, "--data", digits_uri, "--output", "s3://runs/default/run1", env=s3_env)

    assert run.returncode == 0, run.stderr
    accuracy = float(run.stdout.partition("test accuracy: ")[2].split()[0])
    assert accuracy >= 0.95

    def written(name: str) -> bytes:
        content: bytes = client.get_object(Bucket="runs", Key=f"default/run1/{name}")["Body"].read()
        return content

    assert written("log.txt").decode() == run.stdout
    results = json.loads(written("results.json"))
    assert results["accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert results["steps"] == 20 * 23
    assert results["history"][-1]["step"] == 460
    assert results["world_size"] == 2
    assert "model.weights.h5" in zipfile.ZipFile(io.BytesIO(written("model.keras"))).namelist()


def test_ranks_start_alike_and_end_with_equal_weights(mpirun: Mpirun) -> None:
    run = mpirun("python3", "/weights_of_ranks.py", mounts={SCRIPTS / "weights_of_ranks.py": "/weights_of_ranks.py"})

    assert run.returncode == 0, run.stderr
    first, second = json.loads(run.stdout.splitlines()[-1])
    assert first["own_start"] != second["own_start"]
    assert first["shared_start"] == second["shared_start"]
    assert first["end"] == second["end"] != first["shared_start"]


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param(
            "--data s3://digitz/x", {}, r'data\.uri: bucket "digitz" does not exist at http', id="bucket-missing"
        ),
        pytest.param(
            "--data s3://datasets/none",
            {},
            r"data\.uri: s3://datasets/none holds nothing; put MNIST-format idx \.gz files, .* there, or correct data",
            id="prefix-empty",
        ),
        pytest.param(
            "--data s3://datasets/digits",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            r"s3\.secretName: .* refuses the keys of this Secret",
            id="wrong-key",
        ),
        pytest.param(
            "--data s3://datasets/digits",
            {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"},
            r"s3\.endpoint: http://127\.0\.0\.1:1 cannot be reached \(Connection refused\)",
            id="unreachable",
        ),
        pytest.param(
            "--data s3://datasets/digits --output s3://absent/run1",
            {},
            r'output\.uri: bucket "absent" does not exist',
            id="output-bucket-missing",
        ),
        pytest.param(
            "--data s3://datasets/digits --output /opt/run1",
            {},
            r"output\.uri: /opt/run1/log\.txt cannot be written: Permission denied; mount a volume that user 1000",
            id="output-folder-not-writable",
        ),
        pytest.param("--data relative", {}, r"data\.uri: 'relative' is neither", id="argument"),
    ],
)
def test_storage_that_cannot_serve_ends_the_run_in_one_line(
    arguments: str, environment: dict[str, str], message: str, mpirun: Mpirun, digits_uri: str, s3_env: dict[str, str]
) -> None:
    run = mpirun(*TRAINER, "--epochs", "1", *arguments.split(), env={**s3_env, **environment})

    assert_refused(run, message)
    # Before any training, not after it.
    assert run.stdout == ""


def test_damaged_file_ends_the_run_in_one_line(mpirun: Mpirun, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits, tmp_path / "digits")
    images = tmp_path / "digits" / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:1000])

    run = mpirun(*TRAINER, "--epochs", "1", "--data", "/data/damaged", mounts={tmp_path / "digits": "/data/damaged"})

    assert_refused(run, r"data\.uri: /data/damaged/train-images-idx3-ubyte\.gz is damaged \(.*\); upload it again")


def test_global_batch_larger_than_the_data_ends_the_run_in_one_line(mpirun: Mpirun) -> None:
    run = mpirun(*TRAINER, "--epochs", "1", "--data", DIGITS_IN_IMAGE, "--batch-size", "719")

    assert_refused(run, r"trainer\.batchSize: 2 ranks of 719 take 1438 samples a step, and /data/digits has 1437;")


def test_more_ranks_than_samples_end_the_run_in_one_line(mpirun: Mpirun, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", np.zeros((1, 8, 8), dtype=np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.zeros(1, dtype=np.uint8))

    run = mpirun(*TRAINER, "--epochs", "1", "--batch-size", "1", "--data", "/data/one", mounts={tmp_path: "/data/one"})

    assert_refused(run, r"workers\.replicas: 2 ranks share 1 training samples of /data/one; lower workers\.replicas")


def test_loss_that_is_no_number_ends_the_run_in_one_line(mpirun: Mpirun) -> None:
    run = mpirun(*TRAINER, *DIGITS, "--epochs", "1", "--learning-rate", "1e6")

    assert_refused(run, r"trainer\.learningRate: the loss is nan at step \d+; lower trainer\.learningRate")


def test_rank_that_fails_alone_ends_the_others(mpirun: Mpirun) -> None:
    started = time.monotonic()

    script = {SCRIPTS / "fails_on_rank_1.py": "/fails.py"}
    run = mpirun("python3", "/fails.py", *DIGITS, "--epochs", "1", mounts=script, env={"TF_CPP_MIN_LOG_LEVEL": "2"})

    assert_refused(run, r"data\.uri: gone from rank 1")
    assert time.monotonic() - started < 60


def test_resnet50_trains_with_its_published_parameters(mpirun: Mpirun) -> None:
    count = (
        "from distrain_trainer.tensorflow_models import build; "
        "model = build('resnet50', shape=(224, 224, 3), classes=1000); "
        "print(sum(variable.shape.num_elements() for variable in model.trainable_variables))"
    )
    parameters = mpirun("python3", "-c", count, ranks=1)
    run = mpirun(*TRAINER, "--model", "resnet50", "--steps", "2", "--batch-size", "1", ranks=1)

    assert parameters.stdout == "25583592\n", parameters.stderr
    assert run.returncode == 0, run.stderr
    assert re.search(r"^total images/sec: \d", run.stdout, re.MULTILINE)
