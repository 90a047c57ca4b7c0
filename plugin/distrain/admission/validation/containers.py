"""Validate the containers of a pod: their names, images, ports and mounts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from distrain import kube
from distrain.admission.validation.field_errors import duplicate, invalid, not_supported, required
from distrain.admission.validation.names import dns_label, of_each
from distrain.admission.validation.ports import of_host_network, of_host_ports, of_ports
from distrain.admission.validation.probes import of_probes
from distrain.admission.validation.storage.volumes import of_mounts
from distrain.admission.validation.variables import of_variable, of_variables

PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def of_containers(path: str, spec: kube.TemplateSpec, volumes: Collection[str]) -> Iterator[str]:
    """Validate all containers.

    `path` is the path of the pod's spec, and `volumes` are the names of volumes that can be mounted.
    """
    containers, names = spec.containers or (), set[str]()
    if not containers:
        yield required(f"{path}.containers")
    for index, container in enumerate(containers):
        yield from _of_container(f"{path}.containers[{index}]", container, names, volumes)
        yield from of_probes(f"{path}.containers[{index}]", container, is_allowed=True)
    yield from of_host_ports(f"{path}.containers", containers)
    if spec.host_network:
        yield from of_host_network(f"{path}.containers", containers)
    yield from _of_init_containers(f"{path}.initContainers", spec, names, volumes)


def _of_init_containers(path: str, spec: kube.TemplateSpec, names: set[str], volumes: Collection[str]) -> Iterator[str]:
    for index, container in enumerate(spec.init_containers or ()):
        yield from _of_container(f"{path}[{index}]", container, names, volumes)
        yield from of_probes(f"{path}[{index}]", container, is_allowed=container.restart_policy == "Always")
        # Init containers run one after another, so all of them may use the same ports of the node.
        for message in of_host_ports("", [container]):
            yield f"{path}[{index}]{message.removeprefix('[0]')}"


def _of_container(
    path: str, container: kube.TemplateContainer, names: set[str], volumes: Collection[str]
) -> Iterator[str]:
    """Validate a container and add its name to `names`, which has the names of the preceding containers."""
    if not container.name:
        yield required(f"{path}.name")
    elif container.name in names:
        yield duplicate(f"{path}.name", container.name)
    else:
        yield from of_each(f"{path}.name", container.name, dns_label)
        names.add(container.name)
    yield from _of_image(f"{path}.image", container.image or "")
    for index, variable in enumerate(container.env or ()):
        yield from of_variable(f"{path}.env[{index}]", variable)
    for index, variables in enumerate(container.env_from or ()):
        yield from of_variables(f"{path}.envFrom[{index}]", variables)
    policy = container.image_pull_policy
    if policy and policy not in PULL_POLICIES:
        yield not_supported(f"{path}.imagePullPolicy", policy, PULL_POLICIES)
    yield from of_ports(f"{path}.ports", container.ports or ())
    yield from of_mounts(f"{path}.volumeMounts", container.volume_mounts or (), volumes)


def _of_image(path: str, image: str) -> Iterator[str]:
    if not image:
        yield required(path)
    if image != image.strip():
        yield invalid(path, image, "must not have leading or trailing whitespace")
