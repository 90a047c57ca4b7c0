"""Provide S3 to the tests of the stores."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def s3_in_environment(s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables by which the chart passes the S3 settings to a pod."""
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def bucket(request: pytest.FixtureRequest, s3_server: Any) -> str:
    """Create an empty bucket for the tests of a module.

    The bucket is named after the module: `odd-servers` for test_odd_servers.py.
    """
    name: str = request.path.stem.removeprefix("test_").replace("_", "-")
    s3_server.boto3_client().create_bucket(Bucket=name)
    return name
