"""Test that ranks find each other and exchange data in a network without IPv4, with the chart's own arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS
from tests.chart.rendering import render_with
from tests.chart.scripts import pods
from tests.chart.scripts.network import make_network

pytestmark = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for namespaces")

# The program computes an all-reduce and uses no library except Open MPI.
PROGRAM = """
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
mine, total = ctypes.c_int(int(os.environ["OMPI_COMM_WORLD_RANK"]) + 1), ctypes.c_int()
mpi.MPI_Allreduce(
    ctypes.byref(mine), ctypes.byref(total), 1,
    handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), handle("ompi_mpi_comm_world"),
)
print("sum", total.value, flush=True)
mpi.MPI_Finalize()
"""


def test_ranks_exchange_data_without_ipv4(helm4: Path) -> None:
    arguments = render_with(helm4, KINDS["plain"]).mpirun
    with make_network(workers=2, version=6) as network:
        folder = network.pod.folder
        (folder / "program.py").write_text(PROGRAM)
        for number in (0, 1):
            network.start_worker(number)
        network.list(0, 1)
        options = [*network.pod.script_options(), f"--hostfile={folder}/hostfile"]
        command = ["mpirun", *arguments, "--", "python3", f"{folder}/program.py"]

        launcher = network.start(-1, [network.pod.script("distrain-launch"), *options, *command])
        code, output = launcher.end()

    assert code == 0, output
    assert output.count("sum 3") == 2
