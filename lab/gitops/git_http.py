"""Serve the git repositories in a folder over HTTP for reading: `python git_http.py FOLDER ADDRESS PORT`.

git's CGI program answers the requests. See `git help http-backend`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Pass each request to `git http-backend`."""

    root = ""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env={**os.environ, **self._variables()},
            capture_output=True,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def _variables(self) -> dict[str, str]:
        path, _, query = self.path.partition("?")
        return {
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": self.headers.get("Content-Length", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
        }


def main() -> None:
    Handler.root, address, port = sys.argv[1:]
    ThreadingHTTPServer((address, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
