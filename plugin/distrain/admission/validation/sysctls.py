"""Validate the kernel parameters of a pod (Kubernetes pkg/apis/core/validation/validation.go, validateSysctls)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import duplicate, invalid, required

SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
NAME = rf"({SEGMENT}[\./])*{SEGMENT}"
LONGEST = 253
OF_NAME = f"must have at most {LONGEST} characters and match regex ^{NAME}$"
# Parameters of the namespaces that a pod may share with its node (k8s.io/component-helpers/node/util/sysctl).
OF_NETWORK = re.compile(r"net\..*")
OF_IPC = re.compile(r"kernel\.(sem|shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?)|fs\.mqueue\..*")
SWAPPED = str.maketrans("./", "/.")


def of_sysctls(path: str, spec: kube.TemplateSpec) -> Iterator[str]:
    names: set[str] = set()
    for index, sysctl in enumerate((spec.security_context and spec.security_context.sysctls) or ()):
        name, where = sysctl.name or "", f"{path}[{index}].name"
        if not name:
            yield required(where)
        elif len(name) > LONGEST or not re.fullmatch(NAME, name):
            yield invalid(where, name, OF_NAME)
        elif name in names:
            yield duplicate(where, name)
        if spec.host_network and OF_NETWORK.fullmatch(_dotted(name)):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.host_ipc and OF_IPC.fullmatch(_dotted(name)):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")
        names.add(name)


def _dotted(name: str) -> str:
    """Return the name with dots as separators.

    If the first separator in the name is a slash, each slash becomes a dot, and each dot becomes a slash.
    """
    first = re.search(r"[./]", name)
    return name.translate(SWAPPED) if first and first[0] == "/" else name
