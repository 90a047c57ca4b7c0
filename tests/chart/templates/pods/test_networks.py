"""Test the network values of pods: subnets for MPI, dual-stack addresses, and clusters with any DNS domain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.api_schemas import all_complaints
from tests.chart.kinds import KINDS, MPI, every_kind
from tests.chart.rendering import CHART, REPOSITORY, Rendered, refusal, render_with, set_arguments

SUBNETS = "network.subnets={10.0.0.0/16,192.168.0.0/24}"
POLICY = "network.ipFamilyPolicy=PreferDualStack"


def mca(rendered: Rendered) -> dict[str, str]:
    words = rendered.mpirun
    return {words[index + 1]: words[index + 2] for index, word in enumerate(words) if word == "--mca"}


@pytest.mark.parametrize("kind", MPI)
def test_mpi_finds_its_interface_by_the_network(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], SUBNETS))

    parameters = mca(rendered)
    assert parameters["btl_tcp_if_include"] == parameters["oob_tcp_if_include"] == "10.0.0.0/16,192.168.0.0/24"
    assert not [name for name in parameters if name.endswith("_if_exclude")]
    assert "NCCL_SOCKET_IFNAME" not in rendered.env("Worker")


@pytest.mark.parametrize("kind", MPI)
def test_nccl_has_an_interface_of_its_own_beside_the_network_of_mpi(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], SUBNETS, "network.interface=ens5"))

    assert mca(rendered)["oob_tcp_if_include"] == "10.0.0.0/16,192.168.0.0/24"
    assert rendered.env("Worker")["NCCL_SOCKET_IFNAME"]["value"] == "ens5"
    assert "NCCL_SOCKET_IFNAME" not in rendered.env("Launcher")


def test_interfaces_of_the_workers_may_be_a_pattern_of_nccl(helm: Path) -> None:
    values = ("workers.env[0].name=NCCL_SOCKET_IFNAME", "workers.env[0].value=ens\\,eth")

    rendered = render_with(helm, (*values, SUBNETS))

    assert rendered.env("Worker")["NCCL_SOCKET_IFNAME"]["value"] == "ens,eth"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in MPI])
def test_network_of_mpi_is_refused_without_mpi(helm: Path, kind: str) -> None:
    words = refusal(helm, *set_arguments(*KINDS[kind], SUBNETS))

    assert "distrain: network.subnets: is set, but only MPI uses it" in words


@pytest.mark.parametrize("kind", MPI)
def test_interfaces_to_leave_out_beside_the_network_of_mpi_are_refused(helm: Path, kind: str) -> None:
    excluded = "network.excludeInterfaces={lo,docker0}"
    words = refusal(helm, *set_arguments(*KINDS[kind], SUBNETS, excluded))

    assert (
        "distrain: network.excludeInterfaces: is set, but MPI ignores it when network.subnets is set; --set "
        "network.excludeInterfaces=null, or remove network.subnets" in words
    )
    render_with(helm, (*KINDS[kind], excluded))
    render_with(helm, (*KINDS[kind], SUBNETS, "network.excludeInterfaces=null"))


def test_service_of_a_plain_job_may_have_both_families(helm: Path) -> None:
    alone, both = render_with(helm, KINDS["plain"]), render_with(helm, (*KINDS["plain"], POLICY))

    assert "ipFamilyPolicy" not in alone.find("Service")["spec"]
    assert both.find("Service")["spec"]["ipFamilyPolicy"] == "PreferDualStack"
    assert both.content == alone.content
    assert list(all_complaints(both)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_families_of_a_service_that_an_operator_makes_are_refused(helm: Path, kind: str) -> None:
    words = refusal(helm, *set_arguments(*KINDS[kind], POLICY))

    assert "distrain: network.ipFamilyPolicy: PreferDualStack is set, but the operator of a" in words


@every_kind
def test_no_rendered_object_assumes_the_domain_of_the_cluster(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], "monitoring.podMonitor=true"))

    assert "cluster.local" not in rendered.text


def test_hosts_are_names_that_every_domain_completes(helm: Path) -> None:
    # If a name has fewer dots than ndots (5 in a pod), the resolver first tries the name with each search domain
    # appended. One of the search domains is the domain of the cluster.
    hostfile = render_with(helm, KINDS["plain"]).find("ConfigMap", "-hostfile")["data"]["hostfile"]

    hosts = [line.split()[0] for line in hostfile.splitlines()]
    assert hosts
    assert [host for host in hosts if not host.endswith(".run1-plain.default.svc") or host.count(".") >= 5] == []


def test_no_program_assumes_the_domain_of_the_cluster() -> None:
    folders = (CHART / "files", REPOSITORY / "plugin" / "distrain", REPOSITORY / "trainer" / "distrain_trainer")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]

    assert len(files) > 100
    assert [file for file in files if b"cluster.local" in file.read_bytes()] == []
