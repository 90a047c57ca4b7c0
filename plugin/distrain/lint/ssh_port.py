"""Warn if the workers' sshd would use the same port as the node's own sshd."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.lint.subject import Subject, ValueWarning

NODES_OWN = 22


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    if subject.on_host_network and subject.section("ssh").get("port") == NODES_OWN:
        found = "is 22, on which the node's own sshd listens, and the workers use the node's network"
        yield ValueWarning("ssh.port", found, "set it to 2222")
