"""`make demo`: run a distributed training on the lab's cluster or on $KUBECONFIG's cluster, and explain each step.

main() lists the steps. It succeeds only if the run was resumed with another number of workers and finished, the
accuracy is high enough, and the model and the log are in S3.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.exceptions

from lab.builds import golang, images
from lab.cluster import client, lifecycle
from lab.datasets import digits
from lab.errors import LabError
from lab.paths import CACHE_DIR, KUBECONFIG, REPOSITORY

RELEASE = "demo"
WANTED_ACCURACY = 0.95
# One worker more than in values/mnist.yaml.
MORE_WORKERS = 3
# Enough epochs for the third worker to join. Other machines may be many times faster than two cores. If the user may
# not patch pods, kubelet needs a minute and a half to update the hostfile.
EPOCHS_ON_LAB, EPOCHS_ELSEWHERE = 120, 600
STEP = re.compile(r"\d+\timages/sec: ")
RESUMED = re.compile(r"resumed from .*")
VALUES = REPOSITORY / "values" / "mnist.yaml"
# By framework: the kind of the job from values/mnist.yaml, the pod whose log shows the training, and the model's file.
LAUNCHER = "app.kubernetes.io/component=launcher"
WORKER_0 = "app.kubernetes.io/component=worker,training.kubeflow.org/replica-index=0"
RUNS = {
    "tensorflow": ("mpijob", LAUNCHER, "model.keras"),
    "pytorch": ("pytorchjob", WORKER_0, "model.pt"),
    "mxnet": ("mpijob", LAUNCHER, "model.params"),
}
HELM_DATA = CACHE_DIR / "helm-data"


@dataclass(frozen=True)
class Site:
    """The place where the demo runs: an image, a cluster, a bucket of an S3 server, and the Secret with its keys."""

    framework: str
    kubeconfig: str
    namespace: str
    s3: Any
    endpoint: str
    bucket: str
    secret: str
    image: str

    @property
    def is_lab(self) -> bool:
        return self.kubeconfig == str(KUBECONFIG)

    def settings(self) -> list[str]:
        """Return the arguments that fit values/mnist.yaml to this site."""
        values = {
            "framework": self.framework,
            "image.repository": self.image,
            "s3.endpoint": self.endpoint,
            "s3.secretName": self.secret,
            "data.uri": f"s3://{self.bucket}/digits",
            "output.uri": f"s3://{self.bucket}/models",
            "checkpoint.uri": f"s3://{self.bucket}/checkpoints",
            "trainer.epochs": EPOCHS_ON_LAB if self.is_lab else EPOCHS_ELSEWHERE,
            "trainer.logEvery": 100,
        }
        return [argument for key, value in values.items() if value for argument in ("--set", f"{key}={value}")]


def main() -> None:
    """Run the demo. Raises LabError if it does not end as expected."""
    framework = os.environ.get("FRAMEWORK") or "tensorflow"
    if framework not in RUNS:
        raise LabError(f"FRAMEWORK: {framework} is none of {', '.join(RUNS)}")
    site = _user_site(framework) if _is_user_cluster() else _lab_site(framework)
    _say("Put handwritten digits into S3", f"1797 images as four idx files at s3://{site.bucket}/digits")
    _put_digits(site)
    _say("Install the plugin", "helm plugin install ./plugin")
    _install_plugin(site)
    _remove_last_run(site)
    arguments = ["-f", str(VALUES), *site.settings()]
    _say("Does it fit?", "helm distrain check -f values/mnist.yaml")
    _helm(site, "distrain", "check", *arguments)
    _say("Train", f"helm distrain install {RELEASE} -f values/mnist.yaml --wait")
    _helm(site, "distrain", "install", RELEASE, *arguments, "--wait")
    went_on = _follow(site)
    _say("Did it go on?", f"helm distrain rescale {RELEASE} --workers {MORE_WORKERS}")
    print(f"  {went_on}")
    _say("Is it right?", f"results at s3://{site.bucket}/{_prefix(site, 'models')}")
    _judge(site)
    print(_next_steps(site))


def _lab_site(framework: str) -> Site:
    _say("Start a Kubernetes on this machine", "make cluster")
    lifecycle.up()
    _say("Build the trainer's image", "make images")
    client.load_image(images.trainer_image(framework))
    server = lifecycle.s3_server()
    site = Site(
        framework=framework,
        kubeconfig=str(KUBECONFIG),
        namespace="distrain-demo",
        s3=server.boto3_client(),
        endpoint=server.endpoint,
        bucket="distrain-demo",
        secret="s3",
        image=f"distrain/{framework}",
    )
    lifecycle.prepare_namespace(site.namespace, site.secret)
    return site


def _is_user_cluster() -> bool:
    return os.environ.get("KUBECONFIG", str(KUBECONFIG)) != str(KUBECONFIG)


def _user_site(framework: str) -> Site:
    """Describe the cluster of $KUBECONFIG from the environment. Ask the user before anything is changed there."""
    missing = [name for name in ("IMAGE_REPOSITORY", "S3_ENDPOINT", "S3_SECRET") if not os.environ.get(name)]
    if missing:
        raise LabError(
            f"KUBECONFIG is set, so the demo runs there, and that cluster has neither the image nor the data: "
            f"set {', '.join(missing)} (README, On your own cluster), or unset KUBECONFIG"
        )
    site = Site(
        framework=framework,
        kubeconfig=os.environ["KUBECONFIG"],
        namespace=os.environ.get("NAMESPACE", "distrain-demo"),
        s3=boto3.client("s3", endpoint_url=os.environ["S3_ENDPOINT"]),
        endpoint=os.environ["S3_ENDPOINT"],
        bucket=os.environ.get("S3_BUCKET", "distrain-demo"),
        secret=os.environ["S3_SECRET"],
        image=os.environ["IMAGE_REPOSITORY"],
    )
    context = _kubectl(site, "config", "current-context").strip()
    print(f"context {context}, namespace {site.namespace}, release {RELEASE}; data in s3://{site.bucket}")
    if not _is_confirmed():
        raise LabError("nothing was done; YES=1 trains there without asking")
    try:
        _kubectl(site, "get", "secret", site.secret)
    except LabError as error:
        raise LabError(f"S3_SECRET: {error}; make it in namespace {site.namespace}, or name another") from None
    return site


def _is_confirmed() -> bool:
    if os.environ.get("YES") == "1":
        return True
    try:
        return input("Train there? [y/N] ").strip().lower() == "y"
    except EOFError:  # stdin is closed, so no user can answer
        print()
        return False


def _put_digits(site: Site) -> None:
    try:
        _make_bucket(site)
        digits.upload_digits(site.s3, site.bucket)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise LabError(f"S3_ENDPOINT: {site.endpoint}: {error}; are the AWS_ variables set here?") from None


def _make_bucket(site: Site) -> None:
    names = [bucket["Name"] for bucket in site.s3.list_buckets()["Buckets"]]
    if site.bucket not in names:
        site.s3.create_bucket(Bucket=site.bucket)


def _install_plugin(site: Site) -> None:
    plugin = REPOSITORY / "plugin"
    # Helm installs a plugin from a folder as a link, so an existing link to this folder is up to date.
    if (HELM_DATA / "plugins" / plugin.name).resolve() == plugin:
        _run(site, [str(plugin / "bin" / "setup")])
    else:
        shutil.rmtree(HELM_DATA, ignore_errors=True)  # remove the plugin of another checkout
        _helm(site, "plugin", "install", str(plugin))


def _remove_last_run(site: Site) -> None:
    """Remove the release and the files of an earlier demo, so that nobody takes them for files of this demo."""
    _helm(site, "uninstall", RELEASE, "--ignore-not-found", "--wait")
    for folder in ("models", "checkpoints"):
        for key in _stored(site, folder):
            site.s3.delete_object(Bucket=site.bucket, Key=key)


def _follow(site: Site) -> str:
    """Show the run's log until it ends, and add a worker after the training has begun. Wait for the job's result.

    Return the log line with which the run resumed at the new size.
    """
    kind, pod, _ = RUNS[site.framework]
    selector = f"app.kubernetes.io/instance={RELEASE},{pod}"
    went_on = ""
    with subprocess.Popen(
        [_tool(site, "kubectl", "kubectl"), "-n", site.namespace, "logs", "--follow", "--tail=-1", "-l", selector],
        env=_environment(site),
        stdout=subprocess.PIPE,
        text=True,
    ) as log:
        assert log.stdout
        is_rescaled = False
        for line in log.stdout:
            print(line, end="", flush=True)
            if not is_rescaled and STEP.match(line):
                is_rescaled = True
                _rescale(site)
            went_on = line.strip() if RESUMED.match(line) else went_on
    job = _kubectl(site, "get", kind, "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name").strip()
    _kubectl(site, "wait", "--for=condition=Succeeded", job, "--timeout=60s")
    if not went_on:
        raise LabError(
            f"the run was over before its {MORE_WORKERS}. worker came; is it that fast? More epochs would help"
        )
    return went_on


def _rescale(site: Site) -> None:
    _say("Rescale it while it trains", f"helm distrain rescale {RELEASE} --workers {MORE_WORKERS} --yes")
    _helm(site, "distrain", "rescale", RELEASE, "--workers", str(MORE_WORKERS), "--yes")
    _say("Go on", "the same job, with one worker more once that is there")


def _judge(site: Site) -> None:
    stored = {key.rpartition("/")[2]: size for key, size in _stored(site, "models").items()}
    where = f"s3://{site.bucket}/{_prefix(site, 'models')}"
    missing = {RUNS[site.framework][-1], "log.txt", "results.json"} - set(stored)
    if missing:
        raise LabError(f"{where}: {', '.join(sorted(missing))} missing after the run")
    key = f"{_prefix(site, 'models')}results.json"
    results = json.load(site.s3.get_object(Bucket=site.bucket, Key=key)["Body"])
    for name, size in stored.items():
        print(f"  {name:13} {size:>9,} bytes")
    accuracy, ranks = results["accuracy"], results["world_size"]
    print(f"  test accuracy {accuracy:.4f} on {ranks} ranks; wanted at least {WANTED_ACCURACY} on {MORE_WORKERS}")
    if accuracy < WANTED_ACCURACY:
        raise LabError(f"test accuracy is {accuracy:.4f}, below {WANTED_ACCURACY}")
    if ranks != MORE_WORKERS:
        raise LabError(f"the run ended on {ranks} ranks, not on {MORE_WORKERS}; its log says why")


def _stored(site: Site, folder: str) -> dict[str, int]:
    """Return the size of each file of the run in a folder of the bucket, by its key."""
    listing = site.s3.list_objects_v2(Bucket=site.bucket, Prefix=_prefix(site, folder))
    return {item["Key"]: item["Size"] for item in listing.get("Contents", [])}


def _prefix(site: Site, folder: str) -> str:
    return f"{folder}/{site.namespace}/{RELEASE}/"


def _next_steps(site: Site) -> str:
    path = f" PATH={lifecycle.BIN_DIR}:$PATH" if site.is_lab else ""
    cluster_too = "\n  make clean   # the whole cluster; builds and images stay" if site.is_lab else ""
    return f"""
It works. Look around:
  export KUBECONFIG={site.kubeconfig}{path} HELM_DATA_HOME={HELM_DATA}
  kubectl -n {site.namespace} get {RUNS[site.framework][0]},pods
  helm -n {site.namespace} get values {RELEASE}
Try a job that is too big, and read what it says:
  helm -n {site.namespace} distrain check -f values/vgg16.yaml --set workers.gpus=16
Clean up:
  helm -n {site.namespace} uninstall {RELEASE}{cluster_too}"""


def _tool(site: Site, name: str, build: str) -> str:
    """Return the lab's program in the lab. Elsewhere return the user's program if it exists, otherwise the lab's."""
    users = None if site.is_lab else shutil.which(name)
    return users or str(golang.binary(build))


def _helm(site: Site, *arguments: str) -> None:
    _run(site, [_tool(site, "helm", "helm4"), *arguments, "--namespace", site.namespace])


def _kubectl(site: Site, *arguments: str) -> str:
    command = [_tool(site, "kubectl", "kubectl"), "-n", site.namespace, *arguments]
    done = subprocess.run(command, env=_environment(site), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(done.stderr.strip())
    return done.stdout


def _run(site: Site, command: Sequence[str]) -> None:
    done = subprocess.run(command, env=_environment(site), cwd=REPOSITORY, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command[:3])} ended with exit code {done.returncode}; its words are above")


def _environment(site: Site) -> dict[str, str]:
    """Return Helm's environment: the site's cluster, and a separate plugin folder, so that no user's plugin changes."""
    return {**os.environ, "KUBECONFIG": site.kubeconfig, "HELM_DATA_HOME": str(HELM_DATA)}


_STARTED = time.monotonic()


def _say(title: str, detail: str) -> None:
    print(f"\n[{time.monotonic() - _STARTED:4.0f} s] {title}: {detail}", flush=True)
