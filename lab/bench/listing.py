"""Measure how long the trainer takes to start on a million images in S3, with and without a stored list of names.

`PYTHONPATH=trainer python -m lab.bench.listing` starts a fake S3 server, which answers each list request after 50 ms.
Its bucket contains 1,000 classes of 1,000 images. The bench uses no real server, because creating a million objects
would take an hour. The bench fails if a start takes longer than SECONDS.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from unittest import mock
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from distrain_trainer.config import Config
from distrain_trainer.data import load
from lab.datasets.pictures import photographs

CLASSES, IMAGES, PAGE = 1000, 1000, 1000
DELAY = 0.05
SECONDS = 30.0
[(IMAGE, _)] = photographs(1, size=32, classes=1)


def main() -> int:
    with tempfile.TemporaryDirectory() as checkpoints, mock.patch.dict(os.environ, _variables()):
        config = Config(data="s3://bench/set", checkpoint=f"{checkpoints}/run", epochs=1, image_size=32)
        first, again = _start(config), _start(config)
    print(f"{CLASSES * IMAGES} images in S3, {DELAY * 1000:.0f} ms per request, read by one rank:")
    print(f"first start: {first:.1f} s until the data is known; restart, from the list: {again:.1f} s")
    return int(max(first, again) > SECONDS)


def _start(config: Config) -> float:
    started = time.perf_counter()
    dataset = load(config)
    assert (len(dataset.train), dataset.classes) == (CLASSES * IMAGES, CLASSES)
    return time.perf_counter() - started


class Lister(BaseHTTPRequestHandler):
    """A bucket with CLASSES folders of IMAGES images each. All images have the same content."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(DELAY)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self._answer(self._page(asked) if "list-type" in asked else IMAGE)

    def _page(self, asked: dict[str, str]) -> bytes:
        is_by_folder, start = "delimiter" in asked, int(asked.get("continuation-token", 0))
        *page, more = itertools.islice(
            itertools.chain(_keys(asked["prefix"], is_by_folder), [""]), start, start + PAGE + 1
        )
        tag = "CommonPrefixes><Prefix" if is_by_folder else "Contents><Key"
        listed = "".join(f"<{tag}>{escape(name)}{END[is_by_folder]}" for name in page)
        token = f"<NextContinuationToken>{start + PAGE}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{token}{listed}</ListBucketResult>"
        ).encode()

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


# A real server also returns these fields for each object. The client must parse them, although it does not use them.
OTHER = (
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>"
    "<Size>110000</Size><StorageClass>STANDARD</StorageClass>"
)
END = {False: f"</Key>{OTHER}</Contents>", True: "</Prefix></CommonPrefixes>"}


def _keys(prefix: str, is_by_folder: bool) -> Iterator[str]:
    """Yield the keys of objects below a prefix, or the prefixes of its subfolders."""
    folders = [f"set/train/n{number:08}/" for number in range(CLASSES)]
    if is_by_folder:
        return iter(folders if prefix == "set/train/" else ["set/train/"])
    below = (folder for folder in folders if folder.startswith(prefix))
    return (f"{folder}{number:05}.JPEG" for folder in below for number in range(IMAGES))


def _variables() -> dict[str, str]:
    ours, its = multiprocessing.Pipe()
    multiprocessing.Process(target=_serve, args=[its], daemon=True).start()
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    return {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{ours.recv()}", **keys}


def _serve(port: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lister)
    port.send(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
