"""Test the S3 settings, which the chart passes to the trainer as environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.errors import StorageError
from distrain_trainer.storage import S3Store, open_store
from tests.tls_forwarder import tls_before


@pytest.mark.usefixtures("s3_in_environment")
def test_certificate_of_the_bundle_is_trusted(
    bucket: str, s3_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_before(s3_server.endpoint, tmp_path) as (endpoint, certificate):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        with pytest.raises(StorageError) as refused:
            open_store(f"s3://{bucket}/run", value="output.uri").write("a", b"x")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        store = open_store(f"s3://{bucket}/run", value="output.uri")
        store.write("a", b"content")

        assert store.read("a") == b"content"
    told = f"s3.endpoint: the certificate of {endpoint} is not trusted; correct it, or name the certificate of its"
    assert str(refused.value).startswith(told)
    assert str(refused.value).endswith("authority in s3.caBundle")


@pytest.mark.usefixtures("s3_in_environment")
def test_any_certificate_is_accepted_where_the_values_say_so(
    bucket: str, s3_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_before(s3_server.endpoint, tmp_path) as (endpoint, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        monkeypatch.setenv("DISTRAIN_S3_INSECURE_TLS", "1")
        store = open_store(f"s3://{bucket}/run", value="output.uri")
        store.write("b", b"content")

        assert store.read("b") == b"content"


@pytest.mark.parametrize(
    ("style", "url"),
    [
        (None, "https://s3.example.com/digits/a"),
        ("path", "https://s3.example.com/digits/a"),
        ("virtual", "https://digits.s3.example.com/a"),
    ],
)
def test_style_says_where_the_name_of_the_bucket_goes(
    style: str | None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example.com")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    if style:
        monkeypatch.setenv("DISTRAIN_S3_ADDRESSING_STYLE", style)
    store = open_store("s3://digits/run", value="data.uri")
    assert isinstance(store, S3Store)

    signed = store.client.generate_presigned_url("get_object", {"Bucket": "digits", "Key": "a"})

    assert signed.partition("?")[0] == url


def test_role_of_the_pod_is_asked_for_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Set the environment variables that the EKS webhook sets for IAM roles for service accounts, and remove the access
    # keys.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "token").write_text("a token", encoding="utf-8")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/training")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    store = open_store("s3://digits/run", value="data.uri")
    assert isinstance(store, S3Store)

    credentials = store.client._request_signer._credentials
    assert credentials.method == "assume-role-with-web-identity"
