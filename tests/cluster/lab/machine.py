"""Describe what a program could leave on this machine, so that a test can compare the machine before and after."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.cluster.namespaces import CGROUP

# A test compares the entries of these folders before and after the lab has run. Folders such as /tmp are left out,
# because programs outside the lab write to them.
FOLDERS = ("/", "/etc", "/opt", "/run", "/usr/libexec", "/var/lib", "/var/log", "/var/lib/cni", "/run/containerd")
SETTINGS = ("vm", "kernel/keys", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward", "net/netfilter")
# The names of the lab's programs that listen on ports begin with these words.
PROGRAMS = ("containerd", "coredns", "etcd", "kube", "versitygw")
# The kernel itself changes these settings, so they are not compared.
COUNTERS = ("nf_conntrack_count", "stat_refresh", "drop_caches", "compact_memory", "nr_pdflush_threads")

# tests/chart/scripts/network.py creates network namespaces with these names in other test processes.
OF_OTHER_TESTS = re.compile(r"/run/netns$|/run/netns/distrain-\d+-")


def state() -> set[str]:
    """Return one line per mount, link, iptables rule, listening socket, cgroup, folder entry and kernel setting."""
    sources = (_mounts, _links, _rules, _sockets, cgroups, _entries, _settings)
    lines = itertools.chain.from_iterable(source() for source in sources)
    return {line for line in lines if not OF_OTHER_TESTS.search(line)}


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _mounts() -> Iterator[str]:
    return (f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines())


def _links() -> Iterator[str]:
    return (f"link {line.split()[1]}" for line in _output("ip", "-o", "link"))


def _rules() -> Iterator[str]:
    return (f"iptables rule {line}" for line in _output("iptables-save") if line.startswith("-A"))


def _sockets() -> Iterator[str]:
    # Other tests run at the same time and listen on ports, so count only programs of the lab.
    for line in _output("ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes"):
        if any(f'(("{program}' in line for program in PROGRAMS):
            yield f"socket {line.split()[3]}"


def cgroups(root: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Return the lab's cgroups. The lab has one cgroup with cgroup v2, and one per controller with cgroup v1."""
    return [f"cgroup {path}" for pattern in (CGROUP, f"*/{CGROUP}") for path in root.glob(pattern)]


def _entries() -> Iterator[str]:
    paths = (path for folder in map(Path, FOLDERS) if folder.is_dir() for path in folder.iterdir())
    return (f"entry {path}" for path in paths)


def _settings() -> Iterator[str]:
    for root in (Path("/proc/sys") / name for name in SETTINGS):
        for path in [root] if root.is_file() else root.rglob("*"):
            if path.is_file() and path.name not in COUNTERS and path.stat().st_mode & 0o444:
                yield f"setting {path} {path.read_text().strip()}"
