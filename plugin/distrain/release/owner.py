"""Find out from an object's labels and annotations whether Argo CD or Flux manages the object.

Both tools undo a change that is not made in git. `values_in_git.py` finds out where the values are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from distrain import kube

# The prefixes of the labels that Flux's helm-controller and kustomize-controller set.
HELM_RELEASE = "helm.toolkit.fluxcd.io"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io"
# Argo CD marks its objects with this label or with this annotation. Argo CD's older default, the label
# app.kubernetes.io/instance, proves nothing, because the chart sets that label itself.
ARGO_LABEL = "argocd.argoproj.io/instance"
ARGO_ANNOTATION = "argocd.argoproj.io/tracking-id"
# Helm sets this annotation on the objects that it creates.
HELMS_OWN = "meta.helm.sh/release-name"
TOOLS = {"Application": "Argo CD", "HelmRelease": "Flux", "Kustomization": "Flux"}


class Ownership(Struct, frozen=True):
    """The labels and annotations of one object of the release."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Owner(Struct, frozen=True):
    """The object of Argo CD or Flux that manages a release.

    `namespace` is empty if labels and annotations of the release's objects do not contain it.
    """

    kind: str
    name: str
    namespace: str = ""

    @property
    def tool(self) -> str:
        return TOOLS[self.kind]

    @property
    def words(self) -> str:
        """Return a text such as "Flux's HelmRelease run1 in namespace team"."""
        return f"{self.tool}'s {self.kind} {self.name}" + (f" in namespace {self.namespace}" if self.namespace else "")


def ownership_of(metadata: kube.Metadata) -> Ownership:
    return Ownership(metadata.labels or {}, metadata.annotations or {})


def owner(found: Ownership) -> Owner | None:
    """Return the object that manages an object with these labels and annotations, or None if none is known."""
    return _of_flux(found.labels) or _of_argo(found)


def _of_flux(labels: Mapping[str, str]) -> Owner | None:
    for kind, prefix in (("HelmRelease", HELM_RELEASE), ("Kustomization", KUSTOMIZATION)):
        if name := labels.get(f"{prefix}/name"):
            return Owner(kind, name, labels.get(f"{prefix}/namespace", ""))
    return None


def _of_argo(found: Ownership) -> Owner | None:
    tracking = found.annotations.get(ARGO_ANNOTATION, "").partition(":")[0]
    return application(tracking or found.labels.get(ARGO_LABEL, ""))


def application(tracking: str) -> Owner | None:
    """Return the Application that an object's label or annotation names, as APP or as NAMESPACE_APP.

    Argo CD writes NAMESPACE_APP for an Application outside of its own namespace.
    """
    namespace, _, name = tracking.rpartition("_")
    return Owner("Application", name, namespace) if name else None
