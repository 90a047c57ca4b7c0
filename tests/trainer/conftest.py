"""A real mpirun inside the trainer's image, over the working tree's code, and real digits in a real S3 server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

import distrain_trainer
from lab import images
from lab.digits import write_digits

PACKAGE_IN_IMAGE = "/opt/venv/lib/python3.11/site-packages/distrain_trainer"
DIGITS_IN_IMAGE = "/data/digits"


class Mpirun(Protocol):
    def __call__(
        self,
        *argv: str,
        ranks: int = 2,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        timeout: int = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as so many ranks on this machine."""


@pytest.fixture(scope="session")
def mpirun(digits: Path) -> Mpirun:
    environment = images.trainer_environment("tensorflow")
    code = Path(distrain_trainer.__file__).parent

    def run(
        *argv: str,
        ranks: int = 2,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        timeout: int = 120,
    ) -> subprocess.CompletedProcess[str]:
        # Ranks outnumber the cores of a small machine: they must not be bound to one, nor wait for each other busily.
        options = ["--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        return images.run_in_image(
            environment,
            ["mpirun", "-np", str(ranks), *options, *argv],
            env=env,
            mounts={code: PACKAGE_IN_IMAGE, digits: DIGITS_IN_IMAGE, **(mounts or {})},
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    folder.chmod(0o755)  # The trainer reads it as another user.
    write_digits(folder)
    return folder


@pytest.fixture(scope="session")
def digits_uri(digits: Path, s3_server: Any) -> str:
    """Where the digits lie in the S3 server."""
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="datasets")
    for path in digits.iterdir():
        client.upload_file(str(path), "datasets", f"digits/{path.name}")
    return "s3://datasets/digits"


@pytest.fixture
def s3_env(s3_server: Any) -> dict[str, str]:
    """What the chart sets in a pod for S3."""
    return {
        "AWS_ENDPOINT_URL_S3": s3_server.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
    }
