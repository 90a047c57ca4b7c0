"""Define a check of the Pod Security Standards, and functions that the checks of both levels use.

The checks and their messages are copied from k8s.io/pod-security-admission v0.36.2, policy/.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from distrain import kube
from distrain.kube.security_context import ContainerSecurityContext, PodSecurityContext, SecurityContext


class Pod(Struct, frozen=True):
    """A pod in the state in which the API server checks it."""

    spec: kube.TemplateSpec
    annotations: Mapping[str, str]

    @property
    def containers(self) -> list[kube.TemplateContainer]:
        return [*(self.spec.init_containers or ()), *(self.spec.containers or ())]

    @property
    def security(self) -> PodSecurityContext:
        return self.spec.security_context or PodSecurityContext()

    @property
    def is_windows(self) -> bool:
        return self.spec.os is not None and self.spec.os.name == "windows"

    @property
    def has_user_namespace(self) -> bool:
        return self.spec.host_users is False


Judge = Callable[[Pod], str]


class Check(Struct, frozen=True):
    """One version of a check; it is used from Kubernetes 1.`since` on.

    `judge` returns the violation in the API server's words, or an empty text if there is none. A check of the level
    `restricted` can replace a check of the level `baseline`.
    """

    name: str
    since: int
    judge: Judge
    replaces: str = ""


def violation(reason: str, detail: str) -> str:
    return f"{reason} ({detail})" if detail else reason


def quoted(items: Sequence[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def counted(noun: str, items: Sequence[str]) -> str:
    """Return the noun, in the plural unless the number of items is one."""
    return noun if len(items) == 1 else f"{noun}s"


def named(noun: str, names: Sequence[str]) -> str:
    """Return the noun and the names, for example `containers "a", "b"`."""
    return f"{counted(noun, names)} {quoted(names)}"


def use(names: Sequence[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def security(container: kube.TemplateContainer) -> ContainerSecurityContext:
    return container.security_context or ContainerSecurityContext()


def of_containers(
    pod: Pod, forbidden: Callable[[kube.TemplateContainer], Collection[str]]
) -> tuple[list[str], list[str]]:
    """Return the names of the containers that have forbidden values, and the sorted values."""
    return _collected([(container.name, forbidden(container)) for container in pod.containers])


def of_contexts(pod: Pod, forbidden: Callable[[SecurityContext], Collection[str]]) -> tuple[str, list[str]]:
    """Return the forbidden values in security contexts, and say where they are, such as in `pod and container "a"`."""
    own = forbidden(pod.security)
    names, values = _collected([(container.name, forbidden(security(container))) for container in pod.containers])
    owners = [*(["pod"] if own else []), *([named("container", names)] if names else [])]
    return " and ".join(owners), sorted({*own, *values})


def _collected(found: Sequence[tuple[str, Collection[str]]]) -> tuple[list[str], list[str]]:
    return [name for name, values in found if values], sorted({value for _, values in found for value in values})


def unless_windows(judge: Judge) -> Judge:
    return lambda pod: "" if pod.is_windows else judge(pod)


def unless_in_user_namespace(judge: Judge) -> Judge:
    return lambda pod: "" if pod.has_user_namespace else judge(pod)
