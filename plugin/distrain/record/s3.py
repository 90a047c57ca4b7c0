"""Read a record from S3 with the AWS settings of the user: variables, a profile, or the role of a pod."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from distrain import files
from distrain.errors import UnreachableError, ValuesError
from distrain.record.read import RecordError, newest

# Seconds. With a wrong endpoint, the plugin should fail within seconds, not minutes.
CONNECT_TIMEOUT, READ_TIMEOUT, ATTEMPTS = 5, 30, 2
# A name in the DNS of the cluster: the name of a Service alone, or with its namespace and `svc`.
SERVICE = re.compile(r"(?P<name>[a-z0-9-]+)(\.(?P<namespace>[a-z0-9-]+)(?P<svc>\.svc(\..+)?)?)?")
LOCAL_PORT = 9000
CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# Environment variables that contain credentials or tell boto3 where to get them, and the files that boto3 reads
# otherwise.
VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
FILES = ("~/.aws/credentials", "~/.aws/config", "~/.boto", "/etc/boto.cfg")
# S3's error codes for credentials that it refuses. XAdminUserNotFound is versitygw's code for an unknown access key.
REFUSALS = ("AccessDenied", "403", "SignatureDoesNotMatch", "ExpiredToken", "InvalidAccessKeyId", "XAdminUserNotFound")
CORRECT = "correct the location, or the settings of your AWS environment"
CONNECT = "; name another server with --endpoint"


class Bucket(NamedTuple):
    """A location in S3.

    `value` is the flag, or the value of the chart, that sets the location; messages name it. `namespace` is the
    namespace of the run, if known.
    """

    uri: str
    endpoint: str = ""
    region: str = ""
    is_insecure: bool = False
    value: str = "RUN"
    namespace: str = ""
    addressing_style: str = ""

    @property
    def name(self) -> str:
        return urlsplit(self.uri).netloc

    @property
    def prefix(self) -> str:
        return urlsplit(self.uri).path.strip("/")


def names_credentials() -> bool:
    """Tell whether the environment names AWS credentials.

    If the environment names no credentials, boto3 asks the metadata service of the machine's cloud.
    """
    return any(map(os.environ.get, VARIABLES)) or any(os.path.exists(os.path.expanduser(name)) for name in FILES)


def read(bucket: Bucket) -> tuple[bytes, str]:
    """Return the content of the record at a location, and its URI.

    The location is the record itself, or the folder that contains it.

    Raises UnreachableError if S3 does not answer or refuses the request, and RecordError if there is no record.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    if not bucket.name:
        raise ValuesError(f"{bucket.value}: {bucket.uri} names no bucket; write s3://bucket/folder")
    if "@" in bucket.name:
        raise ValuesError(f"{bucket.value}: {bucket.uri} contains a login; write s3://bucket/folder, and {CREDENTIALS}")
    try:
        client = _client(bucket)
        key = bucket.prefix if bucket.prefix.endswith(".jsonl") else _newest(client, bucket)
        if key is None:
            raise RecordError(f"{bucket.value}: {bucket.uri} contains no record.jsonl; name the folder of a run")
        body = client.get_object(Bucket=bucket.name, Key=key)["Body"]
        return files.rest(body, files.MANIFEST), f"s3://{bucket.name}/{key}"
    except ClientError as error:
        raise _refused(bucket, error) from error
    except (BotoCoreError, Boto3Error, OSError, ValueError) as error:
        raise _unreachable(bucket, error) from error


def _client(bucket: Bucket) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.Session()
    if bucket.is_insecure:
        import urllib3

        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # Many S3 servers other than Amazon's refuse the checksums that boto3 adds by default.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": bucket.addressing_style} if bucket.addressing_style else None,
    )
    try:
        return session.client(
            "s3",
            endpoint_url=bucket.endpoint or None,
            region_name=bucket.region or session.region_name or "us-east-1",
            verify=False if bucket.is_insecure else None,
            config=config,
        )
    except ValueError as error:
        # The URL is not repeated, because it may contain a password.
        words = "the endpoint in AWS_ENDPOINT_URL, or in your AWS profile, is no URL of a server"
        raise ValuesError(f"{bucket.value}: {words}; correct it, or name one with --endpoint") from error


def _newest(client: Any, bucket: Bucket) -> str | None:
    """Return the key of the record in a folder, or None if there is no record."""
    folder = f"{bucket.prefix}/" if bucket.prefix else ""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name, Prefix=f"{folder}record")
    names = [entry["Key"].removeprefix(folder) for page in pages for entry in page.get("Contents", ())]
    found = newest(names)
    return f"{folder}{found}" if found else None


def _refused(bucket: Bucket, error: Any) -> UnreachableError | RecordError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code in ("NoSuchKey", "404", "NoSuchBucket"):
        missing = f"bucket {bucket.name}" if code == "NoSuchBucket" else bucket.uri
        return RecordError(
            f"{bucket.value}: there is no {missing}{_at(bucket)}; correct it, or name another server with --endpoint"
        )
    if code in REFUSALS:
        words = f"{_of_credentials(code)}; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret"
        return UnreachableError(f"{bucket.value}: {bucket.uri}{_at(bucket)}: {code}: {words}")
    return UnreachableError(f"{bucket.value}: {bucket.uri}{_at(bucket)} cannot be read: {_one_line(error)}; {CORRECT}")


def _of_credentials(code: str) -> str:
    """Return what an error code says about the user's credentials."""
    if code == "SignatureDoesNotMatch":
        return "the secret key of your AWS credentials is wrong"
    if code == "ExpiredToken":
        return "your AWS credentials have expired"
    if code in ("AccessDenied", "403"):
        return "your AWS credentials have no right to read it"
    return "the server does not know the access key of your AWS credentials"


def _unreachable(bucket: Bucket, error: Exception) -> UnreachableError:
    from botocore import exceptions as known

    if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError):
        words = f"your environment has no AWS credentials; {CREDENTIALS}"
        return UnreachableError(f"{bucket.value}: {bucket.uri}: {words}")
    if isinstance(error, known.SSLError):
        step = "set AWS_CA_BUNDLE to a file with the certificate of the authority that signed it"
        return UnreachableError(f"{bucket.value}: {bucket.uri}{_at(bucket)}: its certificate is not trusted; {step}")
    if isinstance(error, known.ConnectionError | known.HTTPClientError):
        # boto3's message repeats the URL of the request with all its parameters, so it is not shown.
        words = f"S3 does not answer ({type(error).__name__})"
        return UnreachableError(f"{bucket.value}: {bucket.uri}{_at(bucket)}: {words}{forwarding(bucket) or CONNECT}")
    return UnreachableError(f"{bucket.value}: {bucket.uri}{_at(bucket)} cannot be read: {_one_line(error)}; {CORRECT}")


def forwarding(bucket: Bucket) -> str:
    """If the endpoint is a Service of the cluster, tell the user how to reach it from outside.

    Otherwise return an empty string.
    """
    address = urlsplit(bucket.endpoint)
    found = SERVICE.fullmatch(address.hostname or "")
    if not found or found["name"] == "localhost":
        return ""
    namespace = found["namespace"] or bucket.namespace or "NAMESPACE"
    port = address.port or (443 if address.scheme == "https" else 80)
    forward = f"kubectl --namespace {namespace} port-forward service/{found['name']} {LOCAL_PORT}:{port}"
    verb = "is" if found["svc"] or not found["namespace"] else "may be"
    return (
        f"; the endpoint {verb} an address inside the cluster: run `{forward}`, and add --endpoint "
        f"{address.scheme}://127.0.0.1:{LOCAL_PORT}"
    )


def _at(bucket: Bucket) -> str:
    return f" at {bucket.endpoint}" if bucket.endpoint else ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
