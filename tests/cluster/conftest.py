"""Provide the lab as fixtures. pytest-helm-charts uses the kubeconfig that the fixture `kube_config` returns."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from pytest_helm_charts.clusters import Cluster

from lab.builds import images
from lab.cluster import client, lifecycle, operators, teardown
from lab.datasets import digits
from lab.errors import LabError
from lab.paths import CACHE_DIR, KUBECONFIG, STATE_DIR
from lab.waiting import wait_until
from tests import evidence
from tests.cluster import made_pods
from tests.cluster.collector import collect
from tests.cluster.testbed import BUCKET, SECRET, VALUES, WRONG_KEY, Namespace, digits_on_s3, settings
from tests.cluster.training import MXNET, Say, remove_checkpoints, upgrade, wait_for_checkpoint

FOLDER = Path(__file__).parent
OWN_IMAGE = FOLDER / "kinds" / "own-image.Dockerfile"
# A test module that needs other operators than the default ones names them in a variable `OPERATORS`.
OPERATORS = "OPERATORS"
# The tests create this file when they start the lab. This file is removed together with the lab.
STARTED_BY_TESTS = STATE_DIR / "started-by-tests"
_NAMESPACE = pytest.StashKey[str]()
_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that stop the lab or switch its operators first, before other test processes need the lab."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, bool, bool, str]:
    """Return the sort key of a test.

    Tests with the same operators run one after another, because the lab takes half a minute to switch operators.
    """
    takes_down = "restored_lab" in getattr(item, "fixturenames", ())
    others = getattr(getattr(item, "module", None), OPERATORS, None)
    return FOLDER in item.path.parents, not takes_down, others is None, str(others)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Save a failed test's events, objects and logs before its fixtures remove them."""
    report = yield
    if report.failed:
        # If the disk is full or the API server does not answer, the test run continues without this evidence.
        with contextlib.suppress(OSError, LabError):
            folder = evidence.folder_of_test(item, report)
            module = item.getparent(pytest.Module)
            if module and _NAMESPACE in module.stash:
                collect(module.stash[_NAMESPACE], folder)
    return report


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that prints a measurement at once, past pytest's capturing of output."""

    def told(text: str) -> None:
        with capsys.disabled():
            print(f"\n| {text} |", end="")

    return told


@contextlib.contextmanager
def locked(name: str, how: int = fcntl.LOCK_EX) -> Iterator[TextIO]:
    """Hold a lock that other test processes on this machine respect."""
    with (CACHE_DIR / f"cluster-tests-{name}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield lock


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Iterator[None]:
    """Start the lab with the images that most tests use.

    If the tests have started the lab, the test process that ends last stops the lab.
    """
    with locked("use", fcntl.LOCK_SH) as use:
        with locked("start"):
            was_up = lifecycle.is_ready()
            with evidence.one_start_of_the_lab(evidence.folder_of_run(pytestconfig)):
                lifecycle.up()
            if not was_up:
                STARTED_BY_TESTS.touch()
        try:
            # A test process that stops the lab holds this lock until it has started the lab again.
            with locked("start"):
                for framework in ("tensorflow", "mxnet"):
                    client.load_image(images.trainer_image(framework))
            os.environ["PATH"] = f"{lifecycle.BIN_DIR}:{os.environ['PATH']}"
            os.environ["KUBECONFIG"] = str(KUBECONFIG)
            yield
        finally:
            if not was_up:
                fcntl.flock(use, fcntl.LOCK_EX)
                teardown.down()


def check_own() -> None:
    """Raise LabError if a user has started the lab, because a test would remove the user's jobs and data."""
    if not STARTED_BY_TESTS.exists():
        raise LabError("this test would end what runs on the lab that was up before the tests: `make clean` first")


@pytest.fixture(scope="module")
def restored_lab(lab: None) -> Iterator[None]:
    """Provide a lab that the module's tests may stop. Meanwhile no other test process uses the lab."""
    check_own()
    with locked("start"), locked("operators"):
        yield
        lifecycle.up()
        STARTED_BY_TESTS.touch()


@pytest.fixture(scope="module")
def lab_operators(lab: None, request: pytest.FixtureRequest) -> Iterator[operators.Operators]:
    """Install the operators that the test module names in OPERATORS.

    Wait while another test process stops the lab, or uses the lab with other operators. Afterwards, no other test
    process can stop the lab or switch its operators until the module has ended. So fixtures that load an image or
    write to S3 request this fixture and not only `lab`.
    """
    wanted: operators.Operators = getattr(request.module, OPERATORS, operators.DEFAULT)
    with locked("operators", fcntl.LOCK_SH) as lock:
        while operators.installed() != wanted:
            # While this process waited, another test process may have installed the same operators.
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if operators.installed() != wanted:
                    if operators.ends_jobs(wanted):
                        check_own()
                    operators.switch(wanted)
            fcntl.flock(lock, fcntl.LOCK_UN)
            time.sleep(0.5)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield wanted


@pytest.fixture(scope="module")
def own_image(lab_operators: operators.Operators) -> str:
    """Load an image that a user could have built, without any part of distrain, and return the image's name."""
    image = images.image_from("own-image", OWN_IMAGE)
    client.load_image(image)
    return image.reference


@pytest.fixture(scope="module")
def kube_config(lab_operators: operators.Operators) -> str:
    """Return the lab's kubeconfig. The original fixture of pytest-helm-charts needs a command-line option."""
    return str(KUBECONFIG)


@pytest.fixture(scope="module")
def all_images(lab_operators: operators.Operators) -> None:
    """Load every framework's image into the lab."""
    for framework in images.FRAMEWORKS:
        client.load_image(images.trainer_image(framework))


@pytest.fixture(scope="module")
def digits_settings(on_s3: list[str]) -> list[str]:
    """Return Helm's arguments to train on the digits with values/mnist.yaml, with enough epochs for a high accuracy.

    The framework is MXNet, because it starts fastest.
    """
    return ["-f", str(VALUES / "mnist.yaml"), *on_s3, *settings({**MXNET, "trainer.epochs": 10})]


@pytest.fixture(scope="module")
def bucket(lab_operators: operators.Operators) -> None:
    """Create the tests' bucket in the lab's S3 server."""
    s3 = lifecycle.s3_server().boto3_client()
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # The lab ran before, so the bucket exists.
        s3.create_bucket(Bucket=BUCKET)


@pytest.fixture(scope="module")
def on_s3(bucket: None) -> list[str]:
    """Return Helm's arguments with which a run trains on the digits in the lab's S3 server."""
    digits.upload_digits(lifecycle.s3_server().boto3_client(), BUCKET)
    return settings(digits_on_s3())


@pytest.fixture(scope="module")
def module_namespace(kube_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """Create a namespace.

    The variable POD_SECURITY of the test module names the Pod Security Standard that it enforces.
    """
    with _made_namespace(kube_cluster, request.node, getattr(request.module, "POD_SECURITY", "restricted")) as made:
        yield made


@pytest.fixture
def own_namespace(kube_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """Create a namespace for one test. The test's parameter `case` may name a Pod Security Standard."""
    level = getattr(request.getfixturevalue("case"), "pod_security", "restricted")
    with _made_namespace(kube_cluster, request.node.getparent(pytest.Module), level) as made:
        yield made


@contextlib.contextmanager
def _made_namespace(cluster: Cluster, module: pytest.Module, level: str) -> Iterator[Namespace]:
    name = f"test-{os.getpid()}-{next(_numbers)}"
    module.stash[_NAMESPACE] = name
    lifecycle.prepare_namespace(name, SECRET, level)
    lifecycle.put_s3_secret(name, WRONG_KEY, "nobody", "nothing")
    yield Namespace(name, cluster)
    client.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def long_run(
    module_namespace: Namespace, helm4: Path, on_s3: list[str], request: pytest.FixtureRequest
) -> Iterator[Namespace]:
    """Start a run of two workers, and wait for its first checkpoint. All tests of the module share the run.

    A test module can add values for this run in a variable `RUN`.
    """
    upgrade(module_namespace, helm4, on_s3, {"workers.replicas": 2, **getattr(request.module, "RUN", {})})
    wait_for_checkpoint(module_namespace)
    yield module_namespace
    module_namespace.helm(helm4, "uninstall", "run1", "--wait")


@pytest.fixture(scope="module")
def pod_classes(lab_operators: operators.Operators) -> Iterator[None]:
    """Create the PriorityClasses and RuntimeClasses that random pods name."""
    made_pods.put_classes()
    yield
    made_pods.remove_classes()


@pytest.fixture
def namespace(module_namespace: Namespace, helm4: Path) -> Iterator[Namespace]:
    """Provide a namespace in which the test may install a release `run1`."""
    yield module_namespace
    module_namespace.helm(helm4, "uninstall", "run1", "--ignore-not-found", "--wait")
    # A container that receives SIGTERM while it starts may miss the signal. It would then run for its grace period of
    # 30 s.
    client.kubectl("-n", module_namespace.name, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
    wait_until("the pods' end", lambda: not module_namespace.get("pods"), pause=0.5)
    remove_checkpoints(module_namespace)
