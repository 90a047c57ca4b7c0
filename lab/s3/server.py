"""Run the S3 server of the lab and the tests: versitygw, which stores objects in a folder."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.builds import golang
from lab.waiting import free_port, wait_for_port


@dataclass(frozen=True)
class Server:
    """The address of the S3 server, and the keys of its root user."""

    endpoint: str
    access_key: str
    secret_key: str

    @classmethod
    def new(cls, address: str) -> Server:
        """Return a server with new keys for host:port, without starting it."""
        return cls(f"http://{address}", secrets.token_hex(10), secrets.token_hex(20))

    @classmethod
    def load(cls, path: Path) -> Server:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    def command(self, folder: Path) -> list[str | Path]:
        """Return the command that serves `folder`. Each folder in it is a bucket."""
        data, metadata = folder / "data", folder / "metadata"
        data.mkdir(parents=True)
        metadata.mkdir()
        listen = self.endpoint.removeprefix("http://")
        return [golang.binary("versitygw"), "--quiet", "--port", listen, "posix", "--sidecar", metadata, data]

    def environment(self) -> dict[str, str]:
        """Return the server's keys as environment variables, because every user can read a process's command line."""
        return {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}

    def client_environment(self, endpoint: str = "") -> dict[str, str]:
        """Return the environment variables that the chart sets for S3 in a pod.

        `endpoint` is a proxy in front of the server. By default, clients reach the server itself.
        """
        return {
            "AWS_ENDPOINT_URL_S3": endpoint or self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def boto3_client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
        )


@contextmanager
def on_loopback(folder: Path) -> Iterator[Server]:
    """Create a folder, and run a server for it on a free port of loopback."""
    server = Server.new(f"127.0.0.1:{free_port()}")
    command, environment = server.command(folder), server.environment()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port("127.0.0.1", int(server.endpoint.rpartition(":")[2]))
        yield server
    finally:
        process.terminate()
        process.wait(timeout=60)
