"""Test the settings with which the plugin reads a record from S3: the addressing style and the certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.record import s3, source
from distrain.record.s3 import Bucket
from lab.s3.server import Server
from tests.plugin.report import records
from tests.tls_forwarder import tls_before


@pytest.mark.parametrize(
    ("style", "url"),
    [
        ("", "https://s3.example.com/runs/a"),
        ("path", "https://s3.example.com/runs/a"),
        ("virtual", "https://runs.s3.example.com/a"),
    ],
)
def test_style_of_the_release_says_where_the_name_of_the_bucket_goes(
    style: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    asked: list[Bucket] = []
    monkeypatch.setattr(source, "from_bucket", asked.append)
    storage = {"endpoint": "https://s3.example.com", "addressingStyle": style}
    values: dict[str, Any] = {"output": {"uri": "s3://runs"}, "checkpoint": {}, "s3": storage}

    source.from_release("run1", "team", values, "", "")

    client = s3._client(asked[0])
    signed = client.generate_presigned_url("get_object", {"Bucket": "runs", "Key": "a"})
    assert signed.partition("?")[0] == url


def test_certificate_of_the_bundle_is_trusted(
    s3_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="certified")
    client.put_object(Bucket="certified", Key="run1/record.jsonl", Body=records.content(records.rescaled()))

    with tls_before(s3_server.endpoint, tmp_path) as (endpoint, certificate):
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        content, _ = s3.read(Bucket("s3://certified/run1", endpoint))

    assert content == records.content(records.rescaled())
