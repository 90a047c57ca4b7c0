"""Turn error responses of S3 and failed requests into errors that name the chart value to correct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distrain_trainer.errors import StorageError, UnavailableError

if TYPE_CHECKING:
    from distrain_trainer.storage.s3 import S3Store

KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# S3's error codes for wrong access keys. The last one is versitygw's code for an unknown access key.
WRONG_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "XAdminUserNotFound")
WRONG_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
# These error codes mean a temporary failure, whatever the HTTP status is.
BUSY = ("SlowDown", "RequestTimeout", "RequestTimeTooSkewed", "OperationAborted", "Throttling", "ThrottlingException")
BUSY_STATUS = (408, 425, 429)
# The server does not support the method, a header or the HTTP version. Retrying such a request would give the same
# response.
FINAL_STATUS = (501, 505)
# If a TLS error contains one of these words, the connection to the server or a proxy has broken; the certificate is not
# the cause.
CUT_OFF = ("EOF", "timed out", "reset", "closed")

# OpenSSL reports one of these errors if the server answers without TLS. Which one it is depends on the version of
# OpenSSL.
WITHOUT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")


def refused(store: S3Store, verb: str, response: dict[str, Any]) -> StorageError:
    """Return the exception for an error response: UnavailableError if a retry may succeed, otherwise StorageError."""
    error, where = response["Error"], store.client.meta.endpoint_url
    code, status = error.get("Code", ""), response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    answer = f"{store.value}: {where} does not {verb} {store.uri}: {code} {error.get('Message', '')}".rstrip()
    if code in BUSY or status in BUSY_STATUS or (status >= 500 and status not in FINAL_STATUS):
        return UnavailableError(answer)
    if code == "NoSuchBucket":
        return StorageError(
            f'{store.value}: bucket "{store.bucket}" does not exist at {where}; create it or correct {store.value}'
        )
    if code in WRONG_KEYS:
        wrong = "AWS_SECRET_ACCESS_KEY" if code == "SignatureDoesNotMatch" else KEYS
        return StorageError(f"s3.secretName: {where} refuses the keys of this Secret ({code}); correct its {wrong}")
    if code in WRONG_REGION:
        return StorageError(
            f's3.region: bucket "{store.bucket}" is not in {store.client.meta.region_name}: {where} says '
            f'"{error.get("Message", code)}"; set s3.region to the bucket\'s region'
        )
    if code in ("AccessDenied", "Forbidden", "403"):
        return StorageError(
            f"{store.value}: the keys of s3.secretName have no permission to {verb} {store.uri} at {where} ({code}); "
            f"grant them this permission, or correct {store.value}"
        )
    return StorageError(answer)


def is_of_missing_file(response: dict[str, Any]) -> bool:
    """Return whether an error response means that the file does not exist.

    S3's error code is NoSuchKey. The code is in the body of the 404 response, but a proxy in front of the server may
    replace the body.
    """
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code: str = response["Error"].get("Code", "")
    return code == "NoSuchKey" or (status == 404 and code != "NoSuchBucket")


def failed(store: S3Store, verb: str, error: Exception) -> StorageError:
    """Return the exception for a request that got no response."""
    from botocore import exceptions

    where = store.client.meta.endpoint_url
    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return StorageError(f"s3.secretName: no S3 keys are set, and {store.uri} needs them; name a Secret with {KEYS}")
    if isinstance(error, exceptions.SSLError) and any(words in str(error) for words in WITHOUT_TLS):
        plain = where.replace("https://", "http://", 1)
        return StorageError(f"s3.endpoint: {where} answers without TLS; write {plain}, or the port that speaks TLS")
    if isinstance(error, exceptions.SSLError) and not any(words in str(error) for words in CUT_OFF):
        return StorageError(
            f"s3.endpoint: the certificate of {where} is not trusted; correct it, or name the certificate of its "
            "authority in s3.caBundle"
        )
    if isinstance(error, (exceptions.ConnectionError, exceptions.HTTPClientError)):
        return unavailable(store, _innermost(error))
    return StorageError(f"{store.value}: cannot {verb} {store.uri}: {error}")


def unavailable(store: S3Store, reason: str) -> UnavailableError:
    where = store.client.meta.endpoint_url
    return UnavailableError(f"s3.endpoint: {where} cannot be reached ({reason}); correct it, or start the server")


def repeats(store: S3Store) -> StorageError:
    """Return the error for a server whose list of keys never ends: it ignores ContinuationToken and StartAfter."""
    return StorageError(
        f"{store.value}: {store.client.meta.endpoint_url} lists the same keys of {store.uri} again when it is asked "
        "for the next ones (ContinuationToken, StartAfter); use another S3 server, or update this one"
    )


def _innermost(error: BaseException) -> str:
    """Return the message of the innermost wrapped exception, for example "Connection refused"."""
    reason: Any = error
    while isinstance(inner := _wrapped(reason), BaseException):
        reason = inner
    return str(getattr(reason, "strerror", None) or str(reason).rpartition(": ")[2])


def _wrapped(error: Any) -> Any:
    keywords = getattr(error, "kwargs", {})
    return keywords.get("error") or getattr(error, "reason", None) or error.__cause__ or error.__context__
