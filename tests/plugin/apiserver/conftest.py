"""Provide servers with TLS for the tests of credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.fake_api import FakeApi, make_certificate, running
from tests.plugin.objects import node


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Write the fake server's certificate and key into one file.

    The certificate is self-signed, so it is also the CA certificate that the client trusts.
    """
    make_certificate(tmp_path / "tls.pem")
    return tmp_path / "tls.pem"


@pytest.fixture
def secure(certificate: Path) -> Iterator[FakeApi]:
    with running(certificate) as api:
        api.answers["/api/v1/nodes"] = [node("a")]
        yield api


@pytest.fixture
def strict(certificate: Path) -> Iterator[FakeApi]:
    """Run a server that accepts only clients with this certificate."""
    with running(certificate, client_authority=certificate) as api:
        api.answers["/api/v1/nodes"] = [node("a")]
        yield api
