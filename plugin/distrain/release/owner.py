"""Who owns a release: one that Argo CD or Flux made is changed in git, or they would undo the change.

Pure functions over labels and annotations.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from distrain import kube

# Flux' helm-controller and kustomize-controller label what they apply.
HELM_RELEASE = "helm.toolkit.fluxcd.io"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io"
# Argo CD tracks by the one or the other; its older default is app.kubernetes.io/instance, which says nothing here.
ARGO_LABEL = "argocd.argoproj.io/instance"
ARGO_ANNOTATION = "argocd.argoproj.io/tracking-id"
HELMS_OWN = "meta.helm.sh/release-name"


class Ownership(Struct, frozen=True):
    """The labels and annotations of one object of the release."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def ownership_of(metadata: kube.Metadata) -> Ownership:
    return Ownership(metadata.labels or {}, metadata.annotations or {})


def owner(found: Ownership) -> str | None:
    """Say who owns an object and what to change in its place; None when nobody is known to."""
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


def made_without_helm(found: Ownership) -> bool:
    """Tell whether something else than Helm applied the object: Argo CD, `kubectl apply`, ..."""
    return HELMS_OWN not in found.annotations
