"""Find out whether Argo CD or Flux manages a release. Both tools undo changes that are not made in git."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from distrain import kube

# Label prefixes of Flux's helm-controller and kustomize-controller.
HELM_RELEASE = "helm.toolkit.fluxcd.io"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io"
# Argo CD marks its objects with one of these. Its older default, app.kubernetes.io/instance, proves nothing, because
# the chart sets that label itself.
ARGO_LABEL = "argocd.argoproj.io/instance"
ARGO_ANNOTATION = "argocd.argoproj.io/tracking-id"
# Helm sets this annotation on the objects that it creates.
HELMS_OWN = "meta.helm.sh/release-name"


class Ownership(Struct, frozen=True):
    """The labels and annotations of one object of the release."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def ownership_of(metadata: kube.Metadata) -> Ownership:
    return Ownership(metadata.labels or {}, metadata.annotations or {})


def owner(found: Ownership) -> str | None:
    """Return the object's owner and what to change instead, or None if no owner is known."""
    if name := found.labels.get(f"{HELM_RELEASE}/name"):
        where = found.labels.get(f"{HELM_RELEASE}/namespace", "")
        words = f"belongs to Flux's HelmRelease {name} in namespace {where}: change its spec.values"
        return f"{words}, in the git repository that holds it, or Flux undoes the change"
    if name := found.labels.get(f"{KUSTOMIZATION}/name"):
        where = found.labels.get(f"{KUSTOMIZATION}/namespace", "")
        words = f"belongs to Flux's Kustomization {name} in namespace {where}: change the files under its spec.path"
        return f"{words}, in git, or Flux undoes the change"
    tracking = found.annotations.get(ARGO_ANNOTATION, "").partition(":")[0]
    if application := found.labels.get(ARGO_LABEL) or tracking:
        words = f"belongs to Argo CD's Application {application.rpartition('_')[2]}: change the values under its"
        return f"{words} spec.source.helm, or the file that this names, in git, or Argo CD undoes the change"
    return None
