"""Create a network of pods on this machine: each pod has a network namespace and an address on one bridge."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.chart.scripts.pods import Pod, Running, make_pod, wait_for

# SUBNETS maps the IP version to the format of a pod's address and to the length of the prefix. `nodad` makes an IPv6
# address usable at once.
SUBNETS = {4: ("10.213.7.{:d}", "24"), 6: ("fd00:7::{:x}", "64 nodad")}


@dataclass
class Network:
    """The network of a launcher and its workers.

    The launcher has the first address, and the workers have the next ones.

    All pods share one folder, but each pod has its own /tmp.

    With IPv6, /etc/hosts has names for the workers, because Open MPI does not accept IPv6 addresses in a hostfile.
    """

    pod: Pod
    name: str
    version: int = 4
    workers: dict[int, Running] = field(default_factory=dict)

    def address(self, number: int) -> str:
        return SUBNETS[self.version][0].format(number + 2)

    def host(self, number: int) -> str:
        return f"worker-{number}" if self.version == 6 else self.address(number)

    def namespace(self, number: int) -> str:
        return f"{self.name}-{number}"

    def start_worker(self, number: int) -> None:
        """Start a worker. A worker that has run before and has ended can be started again."""
        tmp = self.pod.folder / f"tmp{number}"
        tmp.mkdir(exist_ok=True)
        tmp.chmod(0o777)
        options = [*self.pod.script_options(), "--grace=30"]
        command = [self.pod.script("distrain-worker"), *options]
        self.workers[number] = self.start(number, command, TMPDIR=str(tmp))
        wait_for(lambda: self.is_listening(number))

    def start(self, number: int, command: list[str], **more: str) -> Running:
        enter = ["nsenter", f"--net=/run/netns/{self.namespace(number)}"]
        process = subprocess.Popen(
            [*enter, *self.pod.command(command)], env=self.pod.environment(**more), cwd=self.pod.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return Running(process)

    def is_listening(self, number: int) -> bool:
        probe = ["nsenter", f"--net=/run/netns/{self.namespace(number)}", "ss", "-Hltn", f"sport = :{self.pod.port}"]
        return bool(subprocess.run(probe, capture_output=True, check=True).stdout)

    def list(self, *numbers: int) -> None:
        """Replace the hostfile atomically, as kubelet does."""
        new = self.pod.folder / "hostfile.new"
        new.write_text("".join(f"{self.host(number)} slots=1\n" for number in numbers))
        new.replace(self.pod.folder / "hostfile")


@contextlib.contextmanager
def make_network(workers: int, version: int = 4) -> Iterator[Network]:
    """Create the network of a launcher and some workers, and remove it at the end. Needs root."""
    with make_pod() as pod:
        # A killed test may have left its namespaces. So no two tests use the same names.
        network = Network(pod, f"distrain-{pod.folder.name}", version)
        if version == 6:
            lines = [f"{network.address(number)} {network.host(number)}\n" for number in range(workers)]
            (pod.folder / "hosts").write_text("::1 localhost\n" + "".join(lines))
        try:
            for number in range(-1, workers):
                add_namespace(network, number)
            yield network
        finally:
            for worker in network.workers.values():
                worker.kill()
            for number in range(-1, workers):
                subprocess.run(["ip", "netns", "delete", network.namespace(number)], check=False)


def add_namespace(network: Network, number: int) -> None:
    """Add the network namespace of a pod.

    The launcher is number -1, and its namespace contains the bridge. Each worker is connected to this bridge.
    """
    launcher, own = network.namespace(-1), network.namespace(number)
    lines = [f"netns add {own}", f"-n {own} link set lo up"]
    if number < 0:
        lines += [f"-n {own} link add eth0 type bridge"]
    else:
        lines += [
            f"-n {launcher} link add worker{number} type veth peer name eth0 netns {own}",
            f"-n {launcher} link set worker{number} master eth0 up",
        ]
    prefix = SUBNETS[network.version][1]
    lines += [f"-n {own} address add {network.address(number)}/{prefix} dev eth0", f"-n {own} link set eth0 up"]
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)
