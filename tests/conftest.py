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

# The lab's components, Helm and kubectl are Go programs, and garbage collection takes up to a fifth of their time. With
# this setting, Go programs collect garbage less often.
os.environ.setdefault("GOGC", "400")
# A shell makes its background jobs ignore SIGINT, and their children inherit that. The tests must undo this, because
# they interrupt programs with SIGINT.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not make a test fail, so Hypothesis has no deadline. `make test` tries the same random cases each
# time. With FULL=1, each run tries new cases.
hypothesis.settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=os.environ.get("FULL") != "1",
)
hypothesis.settings.load_profile("busy")

pytest_plugins = ("tests.evidence", "tests.not_tried", "tests.resumed")
MARKERS = {"plugin": "unit", "chart": "chart", "trainer": "trainer", "cluster": "cluster"}
TESTS = Path(__file__).parent
# The folders of tests/ are started in this order, the slowest first. Otherwise one process would still run the slowest
# folder when the others have become idle.
PARTS = ("cluster", "trainer", "plugin", "chart")
# Any free test process may run these modules. SHARING contains the slowest modules of tests/trainer. It also contains
# those modules of tests/cluster that use no GPU in `make test` and do not disturb other tests. The list begins with the
# slowest module.
SHARING = (
    "trainer/training/test_pytorch.py",
    "cluster/rescale/test_rescale_kinds.py",
    "cluster/faults/test_kills.py",
    "cluster/kinds/test_frameworks.py",
    "cluster/faults/test_kills_kinds.py",
    "cluster/rescale/test_rescale.py",
    "trainer/checkpoint/test_programs.py",
    "cluster/plugin/test_upgrade.py",
    "trainer/training/test_storage_faults.py",
    "cluster/kinds/test_stock_image.py",
    "trainer/training/test_chaos.py",
    "cluster/plugin/test_logs.py",
    "trainer/checkpoint/test_state.py",
    "cluster/rescale/test_metrics.py",
    "cluster/rescale/test_rescale_moments.py",
    "cluster/upgrade/test_replaced.py",
    "cluster/rescale/test_suspend.py",
    "cluster/kinds/test_traffic.py",
    "cluster/kinds/test_operators_pods.py",
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
    return (*PARTS, *SHARING).index(_scope(item.path.relative_to(TESTS).as_posix()))


def _scope(path: str) -> str:
    """Return the name of a test's group: one process runs all tests of a group.

    Each module of SHARING is a group of its own.
    """
    return path if path in SHARING else path.partition("/")[0]


class PartScheduling(LoadScopeScheduling):
    """Run all tests of a part, which is a folder of tests/, in the same process.

    When a process has finished a part, it runs the next part, or a module of SHARING.

    There are more test processes than cores, because the cluster tests mostly wait for the lab.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid.partition("::")[0].removeprefix("tests/"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PartScheduling:
    # xdist would start the parts with the most tests first, but the slowest part does not have the most tests.
    config.option.loadscopereorder = False
    return PartScheduling(config, log)


@pytest.fixture(scope="session")
def helm3() -> Path:
    return golang.binary("helm3")


@pytest.fixture(scope="session")
def helm4() -> Path:
    return golang.binary("helm4")


# The scope is `function`. With a wider scope, pytest would group the tests of a module by Helm version, and would
# create the module's shared fixtures once for each version.
@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> Path:
    return golang.binary(request.param)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a real S3 server on loopback while the tests run."""
    with on_loopback(tmp_path_factory.mktemp("s3") / "s3") as server:
        yield server


@pytest.fixture
def s3_proxy(s3_server: Server) -> Iterator[Proxy]:
    """Put a proxy in front of the S3 server. Tests make it inject network and server faults."""
    with proxy_before(s3_server.endpoint) as proxy:
        yield proxy
