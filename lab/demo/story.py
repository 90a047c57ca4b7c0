"""`make demo`: run a distributed training on the lab or on the cluster of $KUBECONFIG, and explain each step.

main() lists the steps. The demo succeeds if the run continued with another number of workers, finished with a high
accuracy, and stored its model and log in S3.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable
from typing import Any, TypeVar

import boto3
import botocore.exceptions

from lab.builds import images
from lab.cluster import client, lifecycle, operators
from lab.cluster.operators import Operators
from lab.datasets import digits
from lab.demo import last_run
from lab.demo.site import HELM_DATA, RELEASE, REPORT, Site
from lab.errors import LabError
from lab.paths import KUBECONFIG, REPOSITORY

T = TypeVar("T")

WANTED_ACCURACY = 0.95
# This is one worker more than in values/mnist.yaml.
MORE_WORKERS = 3
# The chart's notes begin with this word.
NOTES = "Job "
# Helm runs in the repository's folder.
VALUES = "values/mnist.yaml"
# Maps a framework to the kind of job that the chart chooses for values/mnist.yaml, and to the model's file.
RUNS = {
    "tensorflow": ("mpijob", "model.keras"),
    "pytorch": ("pytorchjob", "model.pt"),
    "mxnet": ("mpijob", "model.params"),
}


def main() -> None:
    """Run the demo. Raises LabError if the demo does not end as expected."""
    framework = os.environ.get("FRAMEWORK") or "tensorflow"
    if framework not in RUNS:
        raise LabError(f"FRAMEWORK: {framework} must be one of {', '.join(RUNS)}")
    site = _user_site(framework) if _is_user_cluster() else _lab_site(framework)
    _say("Put handwritten digits into S3", f"1797 images as four idx files at s3://{site.bucket}/digits")
    _put_digits(site)
    _say("Install the plugin", "helm plugin install ./plugin")
    _install_plugin(site)
    last_run.remove(site)
    arguments = ["-f", VALUES, *site.settings()]
    _helm(site, "Does it fit?", "check", *arguments)
    _helm(site, "Train", "install", RELEASE, *arguments, "--wait")
    _rescale(site, "Rescale it while it trains")
    _helm(site, "How is it doing?", "status", RELEASE, "--watch")
    _say("Did it go on?", f"its record at s3://{site.bucket}/{site.prefix('models')}record.jsonl")
    _tell_rescale(site, _record(site))
    _say("Is it right?", f"results at s3://{site.bucket}/{site.prefix('models')}")
    _judge(site)
    _helm(site, "Look at it", "report", RELEASE, "--output", str(REPORT), "--force")
    print(_next_steps(site))


def _lab_site(framework: str) -> Site:
    _say("Start a Kubernetes on this machine", "make cluster; the trainer's image is built meanwhile")
    with images.built_meanwhile(framework):
        _start_lab(framework)
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
        keys={"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key},
    )
    lifecycle.prepare_namespace(site.namespace, site.secret)
    return site


def _start_lab(framework: str) -> None:
    """Start the lab with the operators that the demo needs.

    If the lab already runs, install the operators that it lacks.
    """
    needs_training_operator = RUNS[framework][0] == "pytorchjob"
    lifecycle.up(Operators(training=needs_training_operator))
    if needs_training_operator:
        operators.add_training_operator()


def _is_user_cluster() -> bool:
    return os.environ.get("KUBECONFIG", str(KUBECONFIG)) != str(KUBECONFIG)


def _user_site(framework: str) -> Site:
    """Describe the cluster of $KUBECONFIG and its S3 server, from environment variables.

    Ask the user before the demo changes anything in this cluster.
    """
    missing = [name for name in ("IMAGE_REPOSITORY", "S3_ENDPOINT", "S3_SECRET") if not os.environ.get(name)]
    if missing:
        raise LabError(
            f"KUBECONFIG is set, so the demo runs there, and that cluster has neither the image nor the data: "
            f"set {', '.join(missing)} (docs/lab.md, The demo), or unset KUBECONFIG"
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
    context = site.kubectl("config", "current-context").strip()
    print(f"context {context}, namespace {site.namespace}, release {RELEASE}; data in s3://{site.bucket}")
    for line in _in_s3(site, last_run.left):
        print(f"this would first remove {line}")
    if not _is_confirmed():
        raise LabError("nothing was done; YES=1 trains there without asking")
    try:
        site.kubectl("get", "secret", site.secret)
    except LabError as error:
        raise LabError(f"S3_SECRET: {error}; make it in namespace {site.namespace}, or name another") from None
    return site


def _is_confirmed() -> bool:
    if os.environ.get("YES") == "1":
        return True
    try:
        return input("Train there? [y/N] ").strip().lower() == "y"
    except EOFError:  # if stdin is closed, nobody can answer the question
        print()
        return False


def _put_digits(site: Site) -> None:
    _in_s3(site, _make_bucket)
    _in_s3(site, lambda site: digits.upload_digits(site.s3, site.bucket))


def _in_s3(site: Site, action: Callable[[Site], T]) -> T:
    """Run an action that needs the S3 server. If the server refuses a request, tell the user what to do."""
    try:
        return action(site)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise LabError(f"S3_ENDPOINT: {site.endpoint}: {error}; are the AWS_ variables set here?") from None


def _make_bucket(site: Site) -> None:
    if not site.has_bucket():
        site.s3.create_bucket(Bucket=site.bucket)


def _install_plugin(site: Site) -> None:
    plugin = REPOSITORY / "plugin"
    site.run([str(plugin / "bin" / "setup"), "report"])
    # Helm installs a plugin from a folder as a link. If such a link to this folder exists, the plugin is up to date.
    if (HELM_DATA / "plugins" / plugin.name).resolve() != plugin:
        shutil.rmtree(HELM_DATA, ignore_errors=True)  # remove the link to another checkout's plugin
        site.helm("plugin", "install", str(plugin))


def _helm(site: Site, title: str, *arguments: str) -> None:
    """Run a command of the plugin, below a headline with the same command."""
    _say(title, _shown(site, *arguments))
    site.helm("distrain", *arguments)


def _shown(site: Site, *arguments: str) -> str:
    return shlex.join(["helm", "distrain", *arguments, "--namespace", site.namespace])


def _rescale(site: Site, title: str) -> None:
    """Rescale the run, and print the plan. Leave out the chart's notes, which `install` has already printed."""
    arguments = ("rescale", RELEASE, "--workers", str(MORE_WORKERS), "--yes")
    _say(title, _shown(site, *arguments))
    printed = site.helm_answers("distrain", *arguments)
    plan, _, _ = printed.partition(f"\n{NOTES}")
    print(plan.rstrip("\n"))


def _record(site: Site) -> list[dict[str, Any]]:
    """Return the lines of the run's record, which the run has stored next to its model."""
    key = f"{site.prefix('models')}record.jsonl"
    content = site.s3.get_object(Bucket=site.bucket, Key=key)["Body"].read()
    return [json.loads(line) for line in content.splitlines()]


def _tell_rescale(site: Site, record: list[dict[str, Any]]) -> None:
    """Print at which step the run stopped and continued with another worker.

    Raise LabError if it did not continue with another worker.
    """
    places = [place for place, line in enumerate(record) if line["event"] == "rescale"]
    if not places:
        raise LabError(
            f"the run ended before worker {MORE_WORKERS} joined; is it that fast? Set EPOCHS to more than {site.epochs}"
        )
    found, end = record[places[0]], record[places[0] - 1]
    if end["event"] != "end" or end["step"] != found["step"]:
        raise LabError(f"the run continued at step {found['step']}, but its last record before that is {end}")
    ranks = f"{found['world_size_before']} ranks stopped, and {found['world_size']} went on"
    print(f"  at step {found['step']}, {found['samples']:,} samples: {ranks}")


def _judge(site: Site) -> None:
    stored = {key.rpartition("/")[2]: size for key, size in site.stored("models").items()}
    where = f"s3://{site.bucket}/{site.prefix('models')}"
    missing = {RUNS[site.framework][1], "log.txt", "results.json"} - set(stored)
    if missing:
        raise LabError(f"{where}: {', '.join(sorted(missing))} missing after the run")
    key = f"{site.prefix('models')}results.json"
    results = json.load(site.s3.get_object(Bucket=site.bucket, Key=key)["Body"])
    for name, size in stored.items():
        print(f"  {name:13} {size:>9,} bytes")
    accuracy, ranks = results["accuracy"], results["world_size"]
    print(f"  test accuracy {accuracy:.4f} on {ranks} ranks; wanted at least {WANTED_ACCURACY} on {MORE_WORKERS}")
    if accuracy < WANTED_ACCURACY:
        raise LabError(f"test accuracy is {accuracy:.4f}, below {WANTED_ACCURACY}")
    if ranks != MORE_WORKERS:
        raise LabError(f"the run ended on {ranks} ranks, not on {MORE_WORKERS}; its log says why")


def _next_steps(site: Site) -> str:
    path = f" PATH={lifecycle.BIN_DIR}:$PATH" if site.is_lab else ""
    cluster_too = "\n  make clean   # the whole cluster; builds and images stay" if site.is_lab else ""
    return f"""
It works. Open {REPORT}/report.html, and look around:
  export KUBECONFIG={site.kubeconfig}{path} HELM_DATA_HOME={HELM_DATA}
  kubectl -n {site.namespace} get {RUNS[site.framework][0]},pods
  helm -n {site.namespace} get values {RELEASE}
Try a job that is too big, and read what it says:
  helm -n {site.namespace} distrain check -f values/vgg16.yaml --set workers.gpus=16
Clean up:
  helm -n {site.namespace} uninstall {RELEASE}{cluster_too}"""


_STARTED = time.monotonic()


def _say(title: str, detail: str) -> None:
    print(f"\n[{time.monotonic() - _STARTED:4.0f} s] {title}: {detail}", flush=True)
