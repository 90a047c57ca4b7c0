"""Provide a namespace of the lab for the cluster tests."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from pytest_helm_charts.clusters import Cluster

from lab.cluster import client, lifecycle
from lab.errors import LabError
from lab.paths import KUBECONFIG, REPOSITORY
from lab.waiting import wait_until

VALUES = REPOSITORY / "values"
SECRET = "s3"
WRONG_KEY = "s3-wrong-key"
BUCKET = "cluster-tests"

PROBE = Path(__file__).parent / "probe"
# With these values, a job runs the probe instead of the trainer. The image contains Python.
PROBE_VALUES = {
    "image.repository": "distrain/tensorflow",
    "command": ["python3", "/probe/probe.py"],
    "volumes[0].name": "probe",
    "volumes[0].configMap.name": "probe",
    "volumes[0].configMap.defaultMode": 0o755,
    "volumeMounts[0].name": "probe",
    "volumeMounts[0].mountPath": "/probe",
}
# A Job of Kubernetes that has finished has the condition Complete. A job of Kubeflow that has finished has the
# condition Succeeded.
ENDS = {"Succeeded": "Succeeded", "Complete": "Succeeded", "Failed": "Failed"}

# `get` looks for a kind in these API versions. Like kubectl, use the first version that serves the kind.
_VERSIONS = ("v1", "batch/v1", "kubeflow.org/v2beta1", "kubeflow.org/v1")
_LAUNCHER = "app.kubernetes.io/component=launcher"
# A run of kind Plain has several Jobs. Its launcher's Job has the result of the run.
LAUNCHER_JOB = f"jobs -l {_LAUNCHER}"


def settings(values: dict[str, Any]) -> list[str]:
    """Return Helm's arguments that set these values (path -> value).

    Strings become --set-string, other types --set-json.
    """
    flags = {True: "--set-string", False: "--set-json"}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return [part for key, text in texts.items() for part in (flags[isinstance(values[key], str)], f"{key}={text}")]


def digits_on_s3() -> dict[str, str]:
    """Return the values (path -> value) with which a run reads the digits from the lab's S3 server."""
    return {
        "s3.endpoint": lifecycle.s3_server().endpoint,
        "s3.secretName": SECRET,
        "data.uri": f"s3://{BUCKET}/digits",
        "output.uri": f"s3://{BUCKET}/models",
    }


@dataclass(frozen=True)
class Namespace:
    """A namespace of the lab that enforces a Pod Security Standard.

    The namespace's Secret contains the keys of the S3 server.
    """

    name: str
    cluster: Cluster

    def kubeconfig_of(self, account: str, folder: Path) -> list[str]:
        """Create a ServiceAccount, and return the flags that make a command use it."""
        client.kubectl("-n", self.name, "create", "serviceaccount", account)
        token = client.kubectl("-n", self.name, "create", "token", account).strip()
        config = yaml.safe_load(KUBECONFIG.read_text())
        path = folder / "kubeconfig"
        path.touch(0o600)
        path.write_text(yaml.safe_dump({**config, "users": [{"name": "user", "user": {"token": token}}]}))
        return ["--kubeconfig", str(path)]

    def get(self, kinds: str) -> list[dict[str, Any]]:
        """Return all objects of these kinds.

        Kinds are written as for kubectl: `pods,jobs -l LABELS`, `KIND.VERSION.GROUP`.

        The method asks the API server itself instead of running kubectl. Each kubectl would take a tenth of a second of
        processor time, and waiting tests send many requests.
        """
        names, _, labels = kinds.partition(" -l ")
        return [item for name in names.split(",") for item in self._list(name, labels)]

    def _list(self, kind: str, labels: str) -> list[dict[str, Any]]:
        plural, version, group = (*kind.split(".", 2), "", "")[:3]
        api = f"{group}/{version}" if group else self._api_of(plural)
        answer = self._ask(plural, version=api, params={"labelSelector": labels})
        answer.raise_for_status()
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def _api_of(self, plural: str) -> str:
        for version in _VERSIONS:
            with contextlib.suppress(requests.HTTPError):  # The API server does not serve this version.
                if plural in {one["name"] for one in self.cluster.kube_client.resource_list(version)["resources"]}:
                    return version
        raise LabError(f"none of {', '.join(_VERSIONS)} serves {plural}")

    def _ask(self, path: str, **request: Any) -> requests.Response:
        answer: requests.Response = self.cluster.kube_client.get(
            namespace=self.name, url=path, **{"timeout": 60, **request}
        )
        return answer

    def helm(self, helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Helm in this namespace."""
        return _run([str(helm), *arguments, "--namespace", self.name])

    def distrain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the plugin in this namespace."""
        return _run([sys.executable, "-m", "distrain", *arguments, "--namespace", self.name])

    def outcome(self, kind: str = "mpijobs") -> str:
        """Return the result of the namespace's only job of a kind: Succeeded, Failed, or "" while the job runs."""
        found = self.get(kind)
        conditions = found[0].get("status", {}).get("conditions", []) if found else []
        ends = [ENDS.get(item["type"], "") for item in conditions if item["status"] == "True"]
        return next(filter(None, ends), "")

    def wait_for_end(self, kind: str = "mpijobs", *, seconds: float) -> str:
        """Wait until the job has ended, and return its result.

        Raises LabError with the state of the pods if that takes longer than `seconds`.
        """
        self.wait_until("the job's end", lambda: bool(self.outcome(kind)), seconds=seconds, pause=1)
        return self.outcome(kind)

    def wait_until(self, what: str, is_reached: Callable[[], bool], *, seconds: float, pause: float = 0.5) -> None:
        """Wait until `is_reached` returns true. After the time limit, raise LabError, which also describes the pods."""
        try:
            wait_until(what, is_reached, seconds=seconds, pause=pause)
        except LabError as error:
            raise LabError(f"{error}\n{self.story()}") from None

    def story(self) -> str:
        """Return what explains a failed job: its pods, events and logs."""
        look = [("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp")]
        told = [client.kubectl("-n", self.name, *words) for words in look]
        return "\n".join([*told, *(f"{name}:\n{log}" for name, log in self.logs().items())])

    def logs(self) -> dict[str, str]:
        """Return the pods' logs: pod name -> log. The log is "" before the pod has started."""
        names = [pod["metadata"]["name"] for pod in self.get("pods")]
        return {name: self.log(name, tailLines=200) for name in names}

    def log(self, pod: str, **limits: int) -> str:
        """Return a pod's log, or "" if the pod has not started or is gone.

        `limits` are parameters of the API's log request, such as tailLines.
        """
        answer = self._ask(f"pods/{pod}/log", params=limits)
        return answer.content.decode() if answer.ok else ""

    def running_pods(self) -> list[str]:
        """Return the names of the running pods."""
        return [pod["metadata"]["name"] for pod in self.get("pods") if pod["status"]["phase"] == "Running"]

    def wait_for_no_running_pods(self) -> None:
        """Wait until no pod runs. An operator reports a job's end before it deletes the job's pods."""
        wait_until("the running pods' end", lambda: not self.running_pods(), pause=1)

    def reports(self) -> list[dict[str, Any]]:
        """Return the JSON lines that probe.py has printed in the processes of the job."""
        # The output of a pod's processes is not buffered, so two reports may be on the same line.
        parts = [part for log in self.logs().values() for part in log.split("probe: ")[1:]]
        return [json.JSONDecoder().raw_decode(part)[0] for part in parts]

    def put_probe(self) -> None:
        """Create the ConfigMap with the probe. PROBE_VALUES mount it into the pods."""
        files = {path.name: path.read_text() for path in PROBE.iterdir() if path.is_file()}
        metadata = {"name": "probe", "namespace": self.name}
        client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files})

    def launcher_log(self) -> str:
        return "".join(self.log(pod["metadata"]["name"]) for pod in self.get(f"pods -l {_LAUNCHER}"))

    def accuracy(self) -> float:
        """Return the accuracy on the test data from the launcher's log."""
        return float(self.launcher_log().partition("test accuracy: ")[2].split()[0])

    def results(self) -> dict[str, Any]:
        """Return the results file of the run, read from S3."""
        s3 = lifecycle.s3_server().boto3_client()
        found = s3.get_object(Bucket=BUCKET, Key=f"models/{self.name}/run1/results.json")
        results: dict[str, Any] = json.load(found["Body"])
        return results

    def launcher_end(self) -> dict[str, Any]:
        """Return the exit code and termination message of the launcher's container."""
        pods = self.get(f"pods -l {_LAUNCHER}")
        end: dict[str, Any] = pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        return end


def without_run1(objects: set[str]) -> set[str]:
    """Leave out the names of run1's objects, because Kubernetes may still be deleting those of an earlier test."""
    return {name for name in objects if "/run1" not in name}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
