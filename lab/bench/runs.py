"""Run jobs of the chart on the lab for a benchmark, and return their logs. The network links can be slowed down."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.builds import images
from lab.builds.golang import binary
from lab.cluster import client, faults, lifecycle
from lab.errors import LabError
from lab.paths import CHART, KUBECONFIG
from lab.waiting import wait_until

TOTAL = "total images/sec:"


@dataclass(frozen=True)
class Runs:
    """The runs of a benchmark in one namespace."""

    namespace: str

    def prepare(self, *frameworks: str) -> None:
        """Create the namespace, and load the images of these frameworks."""
        lifecycle.prepare_namespace(self.namespace, "s3")
        for framework in frameworks:
            client.load_image(images.trainer_image(framework))

    def start(self, release: str, values: Mapping[str, object], more: Sequence[str] = ()) -> None:
        self._helm("install", release, str(CHART), *settings(values), *more)

    def end(self, release: str) -> None:
        """Uninstall a release, and wait until its pods are gone."""
        self._helm("uninstall", release, "--wait")
        chosen = ("-l", f"app.kubernetes.io/instance={release}")
        pods = ("-n", self.namespace, "get", "pods", *chosen, "-o", "name")
        wait_until("the pods' end", lambda: not client.kubectl(*pods), pause=1)

    def log_of(
        self,
        end: str,
        values: Mapping[str, object],
        *,
        workers: int = 0,
        rate: float | None = None,
        more: Sequence[str] = (),
        seconds: float = 600,
    ) -> str:
        """Run a job until its log contains the text `end`, and return the log.

        If `rate` (bits per second) is given, slow down the links of the `workers` workers as soon as their pods run.
        """
        self.start("run", values, more)
        if rate:
            wait_until("the workers", lambda: len(self._workers("run")) == workers, seconds=120, pause=0.1)
            for uid in self._workers("run"):
                faults.slow_down(uid, rate)
        wait_until("the run", lambda: end in self.logs("run"), seconds=seconds, pause=1)
        found = self.logs("run")
        self.end("run")
        return found

    def logs(self, release: str) -> str:
        """Return the logs of a release's pods, or "" while a pod has not started."""
        chosen = ("-l", f"app.kubernetes.io/instance={release}")
        try:
            return client.kubectl("-n", self.namespace, "logs", *chosen, "--tail=-1")
        except LabError:
            return ""

    def _workers(self, release: str) -> list[str]:
        """Return the uids of the running worker pods. In a PyTorchJob, all pods of the job are workers."""
        chosen = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=worker"
        pods = json.loads(client.kubectl("-n", self.namespace, "get", "pods", "-l", chosen, "-o", "json"))["items"]
        return [pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"]

    def _helm(self, *arguments: str) -> None:
        command = [str(binary("helm4")), *arguments, "--namespace", self.namespace, "--kubeconfig", str(KUBECONFIG)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def settings(values: Mapping[str, object]) -> list[str]:
    """Return Helm's flags that set these values."""
    return ["--set", ",".join(f"{name}={value}" for name, value in values.items())]


def images_per_second(log: str) -> float:
    return float(log.partition(TOTAL)[2].split()[0])
