"""List the keys of an S3 bucket, either page by page or in many folders at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.storage.s3_errors import repeats

if TYPE_CHECKING:
    from distrain_trainer.storage.s3 import S3Store

# Folders listed at once.
LISTERS = 16
# A data set may have these folders. Each of them contains one folder per class.
PARTS = ("train/", "val/", "test/")


def pages(store: S3Store, prefix: str) -> Iterator[list[str]]:
    """Yield the keys that begin with `prefix`, page by page. Raises StorageError."""
    last, token, is_more = "", "", True
    while is_more:
        page, by_token = store.ask("list", partial(_page, store, prefix, last, token))
        keys = [entry["Key"] for entry in page.get("Contents", [])]
        # A page requested with StartAfter contains only keys after the last key of the previous page. A page requested
        # with a token may have its keys in another order, so only look for that last key.
        if last and (last in keys if by_token else any(key <= last for key in keys)):
            raise repeats(store)
        yield keys
        former, token = token, page.get("NextContinuationToken", "")
        last = keys[-1] if keys else last
        is_more = page.get("IsTruncated", False) and (bool(keys) or token != former)


def all_keys(store: S3Store, prefix: str) -> list[str]:
    """Return the keys that begin with `prefix`, in any order. Raises StorageError.

    S3 returns 1,000 keys per page, and a page can be requested only after the previous one has arrived. So this
    function lists several folders at the same time, each with its own requests.
    """
    try:
        return _keys_by_folder(store, prefix)
    except UnavailableError:
        raise
    except StorageError:  # Not every server supports the parameter Delimiter.
        return [*chain.from_iterable(pages(store, prefix))]


def _keys_by_folder(store: S3Store, prefix: str) -> list[str]:
    keys, folders = _folder(store, prefix)
    for part in PARTS:
        if prefix + part in folders:
            folders.remove(prefix + part)
            more_keys, more_folders = _folder(store, prefix + part)
            keys, folders = keys + more_keys, folders + more_folders
    with ThreadPoolExecutor(LISTERS) as listers:
        listed = listers.map(lambda folder: [*chain.from_iterable(pages(store, folder))], folders)
        return [*keys, *chain.from_iterable(listed)]


def _folder(store: S3Store, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys directly below `prefix`, and the prefixes of its folders."""
    keys, folders, seen = list[str](), list[str](), set[str]()
    token, is_more = "", True
    while is_more:
        after = {"ContinuationToken": token} if token else {}
        ask = partial(store.client.list_objects_v2, Bucket=store.bucket, Prefix=prefix, Delimiter="/", **after)
        page = store.ask("list", ask)
        listed = [entry["Key"] for entry in page.get("Contents", [])]
        below = [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
        token, is_more = page.get("NextContinuationToken", ""), page.get("IsTruncated", False)
        if not seen.isdisjoint(listed + below) or (is_more and not (token and listed + below)):
            raise repeats(store)
        seen.update(listed, below)
        keys, folders = keys + listed, folders + below
    return keys, folders


def _page(store: S3Store, prefix: str, last: str, token: str) -> tuple[Any, bool]:
    """Request one page of keys.

    Also return true if the request contained `token`, and false if it contained the last key instead.
    """
    from botocore.exceptions import ClientError

    ask = partial(store.client.list_objects_v2, Bucket=store.bucket, Prefix=prefix)
    if token:
        try:
            return ask(ContinuationToken=token), True
        except ClientError as error:
            # The continuation token may have expired during an outage. Continue with StartAfter then.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 400:
                raise
    return ask(**({"StartAfter": last} if last else {})), False


def keep_keys_alone(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parse only the keys in a page. botocore's own parser also parses all other fields, and takes ten times as long.

    botocore calls this function at its event before-parse, and copies `customized_response_dict` to the parsed
    response.
    """
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:  # Leave an invalid response unchanged: botocore then reports the error.
        return
    namespace = page.tag.removesuffix("ListBucketResult")
    entries = page.findall(f"{namespace}Contents")
    if entries:
        rest = ElementTree.Element(page.tag)
        rest.extend(each for each in page if each.tag != f"{namespace}Contents")
        response_dict["body"] = ElementTree.tostring(rest)
        customized_response_dict["Contents"] = [{"Key": each.findtext(f"{namespace}Key", "")} for each in entries]
