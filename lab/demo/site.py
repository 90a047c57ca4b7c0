"""Describe where the demo runs: the cluster, the bucket, and the programs that the demo uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.builds import golang
from lab.errors import LabError
from lab.paths import CACHE_DIR, KUBECONFIG, REPOSITORY

RELEASE = "demo"
# With this many epochs, the run lasts until the third worker has joined, even on machines that are many times faster
# than two cores. If the user may not patch pods, kubelet takes a minute and a half to update the hostfile.
EPOCHS_ON_LAB, EPOCHS_ELSEWHERE = 240, 1200
HELM_DATA = CACHE_DIR / "helm-data"
REPORT = CACHE_DIR / "demo-report"


@dataclass(frozen=True)
class Site:
    """Where the demo runs: an image, a cluster, a bucket on an S3 server, and the Secret with the server's keys.

    `keys` are environment variables with the keys of the lab's S3 server. If the demo uses a user's server, the keys
    are already in the environment.
    """

    framework: str
    kubeconfig: str
    namespace: str
    s3: Any
    endpoint: str
    bucket: str
    secret: str
    image: str
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_lab(self) -> bool:
        return self.kubeconfig == str(KUBECONFIG)

    @property
    def epochs(self) -> str:
        """Return EPOCHS from the environment, or a default that is enough on most machines."""
        return os.environ.get("EPOCHS") or str(EPOCHS_ON_LAB if self.is_lab else EPOCHS_ELSEWHERE)

    def settings(self) -> list[str]:
        """Return Helm's arguments that adapt values/mnist.yaml to this cluster and bucket."""
        values = {
            "framework": self.framework,
            "image.repository": self.image,
            "s3.endpoint": self.endpoint,
            "s3.secretName": self.secret,
            "data.uri": f"s3://{self.bucket}/digits",
            "output.uri": f"s3://{self.bucket}/models",
            "checkpoint.uri": f"s3://{self.bucket}/checkpoints",
            "trainer.epochs": self.epochs,
            "trainer.logEvery": 100,
        }
        return [argument for key, value in values.items() if value for argument in ("--set", f"{key}={value}")]

    def has_bucket(self) -> bool:
        return self.bucket in [bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"]]

    def stored(self, folder: str) -> dict[str, int]:
        """Return the files of the run in a folder of the bucket: key -> size."""
        listing = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix(folder))
        return {item["Key"]: item["Size"] for item in listing.get("Contents", [])}

    def prefix(self, folder: str) -> str:
        return f"{folder}/{self.namespace}/{RELEASE}/"

    def tool(self, name: str, build: str) -> str:
        """Return a program's path.

        In the lab, return the program that the lab has built. On a user's cluster, return the program in the user's
        PATH, or the lab's program if PATH has none.
        """
        users = None if self.is_lab else shutil.which(name)
        return users or str(golang.binary(build))

    def helm(self, *arguments: str) -> None:
        self.run([*self._helm(), *arguments, "--namespace", self.namespace])

    def helm_answers(self, *arguments: str) -> str:
        """Run Helm and return its stdout. Helm's stderr goes to the terminal."""
        command = [*self._helm(), *arguments, "--namespace", self.namespace]
        done = self._run(command, stdout=subprocess.PIPE, text=True)
        return str(done.stdout)

    def helm_says(self, *arguments: str) -> str:
        return self._output([*self._helm(), *arguments, "--namespace", self.namespace])

    def kubectl(self, *arguments: str) -> str:
        return self._output([self.tool("kubectl", "kubectl"), "-n", self.namespace, *arguments])

    def run(self, command: Sequence[str]) -> None:
        self._run(command)

    def _run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        done = subprocess.run(command, env=self.environment, cwd=REPOSITORY, check=False, **options)
        if done.returncode != 0:
            raise LabError(f"{' '.join(command[:3])} ended with exit code {done.returncode}; its output is above")
        return done

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables for Helm: the cluster's kubeconfig, and a plugin folder of the demo's own."""
        return {**os.environ, **self.keys, "KUBECONFIG": self.kubeconfig, "HELM_DATA_HOME": str(HELM_DATA)}

    def _helm(self) -> list[str]:
        return [self.tool("helm", "helm4")]

    def _output(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(done.stderr.strip())
        return done.stdout
