"""Provide S3 to the tests of the record, and let records be written without a pause."""

from __future__ import annotations

import pytest

from tests.trainer.storage.conftest import bucket, s3_in_environment

__all__ = ["bucket", "s3_in_environment"]


@pytest.fixture(autouse=True)
def written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.record.background.SECONDS_BETWEEN_WRITES", 0.01)
    monkeypatch.setattr("distrain_trainer.record.record.SECONDS_FOR_LAST", 60.0)
