"""Causes in the storage: the trainer cannot read its data or write its results."""

from __future__ import annotations

from lab.cluster import lifecycle
from lab.cluster.components import API_SERVER
from lab.cluster.namespaces import NODE_ADDRESS
from tests.cluster.testbed import WRONG_KEY
from tests.cluster.why.case import Case, Said

ONCE = {"job.maxRestarts": 0}
S3 = f"http://{NODE_ADDRESS}:{lifecycle.S3_PORT}"
NOBODY = "http://127.0.0.1:1"

CASES = (
    Case(
        "S3 bucket missing",
        Said(
            "Failed",
            f'data.uri: bucket "no-such-bucket" does not exist at {S3}',
            "create it or correct data.uri",
        ),
        {"data.uri": "s3://no-such-bucket/digits", **ONCE},
        trains=True,
    ),
    Case(
        "S3 keys refused",
        Said(
            "Failed",
            f"s3.secretName: {S3} refuses the keys of this Secret (XAdminUserNotFound)",
            "correct its AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        {"s3.secretName": WRONG_KEY, **ONCE},
        trains=True,
    ),
    Case(
        "S3 server down",
        Said(
            "Starting",
            f"s3.endpoint: {NOBODY} cannot be reached (Connection refused)",
            "correct it, or start the server; the run still tries",
        ),
        {"s3.endpoint": NOBODY, **ONCE},
        trains=True,
    ),
    Case(
        "TLS certificate not trusted",
        Said(
            "Failed",
            f"s3.endpoint: the certificate of {API_SERVER} is not trusted",
            "correct it, or name the certificate of its authority in s3.caBundle",
        ),
        {"s3.endpoint": API_SERVER, **ONCE},
        trains=True,
    ),
    Case(
        "S3 server without TLS",
        Said(
            "Failed",
            f"s3.endpoint: {S3.replace('http:', 'https:')} answers without TLS",
            f"write {S3}, or the port that speaks TLS",
        ),
        {"s3.endpoint": S3.replace("http:", "https:"), **ONCE},
        trains=True,
    ),
    Case(
        "no data",
        Said(
            "Failed",
            "data.uri: s3://cluster-tests/nothing holds nothing",
            "correct data.uri, or put there MNIST-format idx .gz files, one folder of .jpg or .png images per class, "
            "or .tar shards (images and shards may also be in train/ and val/)",
        ),
        {"data.uri": "s3://cluster-tests/nothing", **ONCE},
        trains=True,
    ),
)
