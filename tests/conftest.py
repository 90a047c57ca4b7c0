"""Fixtures and options of all tests: tools that the lab builds, an S3 server, and the choice of tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from lab.builds import golang
from lab.s3.proxy import Proxy, proxy_before
from lab.s3.server import Server, on_loopback
from tests.matrix import leave_each_to_one

# The lab, Helm and kubectl are Go programs, which spend up to a fifth of their time on garbage collection.
os.environ.setdefault("GOGC", "400")
# A shell makes its background jobs ignore SIGINT, and their children inherit that. The tested programs need SIGINT.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test may fail because the machine is busy.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

pytest_plugins = ("tests.evidence", "tests.not_tried", "tests.resumed")
MARKERS = {"plugin": "unit", "chart": "chart", "trainer": "trainer", "cluster": "cluster"}
TESTS = Path(__file__).parent
# Modules that either process may run beside the other's tests: modules of tests/cluster that use no GPU and do not
# disturb other tests on the lab, and the longest of tests/trainer. The longest is first: if a process ended with a long
# module, the other process would be idle.
SHARING = (
    "trainer/training/test_chaos.py",
    "trainer/training/test_storage_faults.py",
    "cluster/plugin/test_upgrade.py",
    "cluster/rescale/test_rescale.py",
    "cluster/rescale/test_rescale_kinds.py",
    "trainer/checkpoint/test_programs.py",
    "cluster/faults/test_kills_kinds.py",
    "trainer/checkpoint/test_state.py",
    "cluster/rescale/test_rescale_moments.py",
    "cluster/upgrade/test_replaced.py",
    "trainer/training/test_left_out.py",
    "cluster/kinds/test_traffic.py",
    "cluster/kinds/test_operators_pods.py",
    "cluster/plugin/test_scheduler.py",
    "cluster/faults/test_s3_failures.py",
    "cluster/plugin/test_doctor.py",
    "cluster/kinds/test_admission.py",
    "cluster/plugin/test_listing.py",
    "cluster/kinds/test_rbac.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its part, so that for example `pytest -m unit` runs one part."""
    for item in items:
        if not item.get_closest_marker("install"):
            part = item.path.relative_to(TESTS).parts[0]
            item.add_marker(MARKERS[part])
    leave_each_to_one(items, "either_helm", "helm", ("helm4", "helm3"))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    path = item.path.relative_to(TESTS).as_posix()
    return SHARING.index(path) if path in SHARING else -1


class PartScheduling(LoadScopeScheduling):
    """Run the cluster tests, which share the lab and often wait for it, in one process, and all others in another.

    The process that finishes first also runs the modules in SHARING. With three processes the trainer's tests have one
    of their own.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        if path in SHARING:
            return path
        part = path.partition("/")[0]
        return part if part in ("cluster", "trainer") else "other"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PartScheduling:
    # Otherwise xdist would run the scopes with the fewest tests last.
    config.option.loadscopereorder = False
    return PartScheduling(config, log)


@pytest.fixture(scope="session")
def helm3() -> Path:
    return golang.binary("helm3")


@pytest.fixture(scope="session")
def helm4() -> Path:
    return golang.binary("helm4")


# Function scope: with a wider scope, pytest would run all tests with Helm 3 before those with Helm 4, and create the
# fixtures that a module's tests share twice.
@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> Path:
    return golang.binary(request.param)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real S3 server on loopback."""
    with on_loopback(tmp_path_factory.mktemp("s3") / "s3") as server:
        yield server


@pytest.fixture
def s3_proxy(s3_server: Server) -> Iterator[Proxy]:
    """A proxy in front of the S3 server that injects network and server faults."""
    with proxy_before(s3_server.endpoint) as proxy:
        yield proxy
