"""Read all pods with as little work as possible. Two processes each fetch every second page, without decoding it.

The pages are protobuf if the server can send protobuf, otherwise JSON. `python -m lab.static_api.bare_reader URL
AUTHORITY` reads from `lab.static_api.server`. In this server a continue token is the number of a pod, so a client can
request a page before it has read the previous one.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from io import BufferedReader
from multiprocessing import Process
from typing import cast
from urllib.parse import urlsplit

from lab.static_api.objects import NODES, PODS_PER_NODE
from lab.static_api.protobuf import MEDIA_TYPE

PROCESSES = 2
PAGE_SIZE = 500
LARGEST_PAGE = 8 * 2**20
BUFFER = 2**20


def main() -> None:
    url, authority = sys.argv[1:]
    processes = [Process(target=_pass_over, args=(url, authority, number)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit(1)


def _pass_over(url: str, authority: str, number: int) -> None:
    starts = range(PAGE_SIZE * number, NODES * PODS_PER_NODE, PAGE_SIZE * PROCESSES)
    for page in _pages(url, authority, starts):
        assert len(page) > PAGE_SIZE


def _pages(url: str, authority: str, starts: range) -> Iterator[memoryview]:
    """Yield the bodies of pages. `starts` has, for each page, the number of the page's first pod.

    A yielded body is overwritten when the next one is read.
    """
    server = urlsplit(url)
    buffer = memoryview(bytearray(LARGEST_PAGE))
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection((server.hostname or "", server.port or 0)) as plain,
        context.wrap_socket(plain, server_hostname=server.hostname) as connection,
        cast(BufferedReader, connection.makefile("rb", BUFFER)) as file,
    ):
        for start in starts:
            path = f"/api/v1/pods?limit={PAGE_SIZE}&continue={start}"
            head = f"GET {path} HTTP/1.1\r\nHost: {server.netloc}\r\nAccept: {MEDIA_TYPE}\r\n\r\n"
            connection.sendall(head.encode())
            while file.readline() != b"\r\n":
                pass
            size = 0
            while length := int(file.readline(), 16):
                # Also read the line end of the chunk. The next chunk overwrites this line end in the buffer.
                file.readinto(buffer[size : size + length + 2])
                size += length
            file.readline()
            yield buffer[:size]


if __name__ == "__main__":
    main()
