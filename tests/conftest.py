"""What every part's tests share: the tools the lab builds, a real S3 server, and which tests are for `make bench`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from lab.builds import golang
from lab.s3.proxy import Proxy, proxy_before
from lab.s3.server import Server, on_loopback
from tests.matrix import leave_each_to_one

# The lab, Helm and kubectl are programs of Go, which take up to a fifth of their time to collect garbage.
os.environ.setdefault("GOGC", "400")
# A shell has its background jobs ignore Ctrl-C, and their children too; what is tested heeds that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MARKERS = {"plugin": "unit", "chart": "chart", "trainer": "trainer", "cluster": "cluster"}
TESTS = Path(__file__).parent
# Of the cluster's modules, those that take no GPU and change nothing of the lab that the others meet. Longest first: a
# process that ends with a long one leaves the other without work.
SHARING = (
    "test_upgrade.py",
    "test_rescale.py",
    "test_rescale_kinds.py",
    "test_kills_kinds.py",
    "test_rescale_moments.py",
    "test_replaced.py",
    "test_traffic.py",
    "test_operators_pods.py",
    "test_scheduler.py",
    "test_s3_failures.py",
    "test_doctor.py",
    "test_admission.py",
    "test_listing.py",
    "test_rbac.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its part, so that `pytest -m unit` and the like run one part; leave out the rest of a matrix.

    FULL=1 runs the whole matrix.
    """
    for item in items:
        if not item.get_closest_marker("install"):
            part = item.path.relative_to(TESTS).parts[0]
            item.add_marker(MARKERS[part])
    leave_each_to_one(items, "either_helm", "helm", ("helm4", "helm3"))
    if os.environ.get("FULL") != "1":
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    part, name = item.path.relative_to(TESTS).parts[0], item.path.name
    return SHARING.index(name) if part == "cluster" and name in SHARING else -1


class PartScheduling(LoadScopeScheduling):
    """Run the cluster's tests, which share one lab and often wait for it, in one process, and the others in another.

    Whichever is done first takes the modules that need no part of the lab to themselves.
    """

    def _split_scope(self, nodeid: str) -> str:
        _, part, *names = nodeid.partition("::")[0].split("/")
        if part != "cluster":
            return "other"
        return names[-1] if names[-1] in SHARING else "cluster"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PartScheduling:
    # Else those with the fewest tests come last.
    config.option.loadscopereorder = False
    return PartScheduling(config, log)


@pytest.fixture(scope="session")
def helm3() -> Path:
    return golang.binary("helm3")


@pytest.fixture(scope="session")
def helm4() -> Path:
    return golang.binary("helm4")


# Of each test's own scope: pytest would run all of a wider one's tests with Helm 3 before those with Helm 4, and make
# what a module's tests share twice.
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
    """A proxy before the S3 server, for what networks and busy servers do to requests."""
    with proxy_before(s3_server.endpoint) as proxy:
        yield proxy
