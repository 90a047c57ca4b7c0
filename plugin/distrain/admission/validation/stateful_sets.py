"""Validate a StatefulSet (pkg/apis/apps/validation/validation.go)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from distrain import kube
from distrain.admission.validation import names, pods
from distrain.admission.validation.field_errors import NOT_NEGATIVE, forbidden, invalid, not_supported, required
from distrain.admission.validation.jobs import TEMPLATE, of_selected
from distrain.admission.validation.selectors import of_label_selector
from distrain.admission.validation.storage.claims import of_claim
from distrain.kube.pod_spec import Claim
from distrain.kube.selectors import is_empty

POLICIES = ("OrderedReady", "Parallel")
UNSUPPORTED = "activeDeadlineSeconds in StatefulSet is not Supported"


def of_stateful_set(found: kube.Workload) -> Iterator[str]:
    """Validate a StatefulSet."""
    template = found.spec.template or kube.PodTemplate()
    yield from names.of_metadata(found.metadata, names.dns_label)
    if (found.spec.replicas or 0) < 0:
        yield invalid("spec.replicas", found.spec.replicas, NOT_NEGATIVE)
    if (policy := found.spec.pod_management_policy) not in (None, *POLICIES):
        yield invalid("spec.podManagementPolicy", policy, f"must be '{POLICIES[0]}' or '{POLICIES[1]}'")
    for index, claim in enumerate(found.spec.volume_claim_templates or ()):
        yield from of_claim(f"spec.volumeClaimTemplates[{index}].spec", claim.spec)
    wrong = list(_of_selector(found.spec.selector))
    yield from wrong or _of_template(found.spec, template, template.spec or kube.TemplateSpec())


def _of_selector(selector: kube.LabelSelector | None) -> Iterator[str]:
    if not selector:
        yield required("spec.selector")
    elif is_empty(selector):
        yield invalid("spec.selector", {}, "empty selector is invalid for statefulset")
    else:
        yield from of_label_selector("spec.selector", selector)


def _of_template(spec: kube.WorkloadSpec, template: kube.PodTemplate, pod: kube.TemplateSpec) -> Iterator[str]:
    metadata = template.metadata or kube.TemplateMetadata()
    yield from of_selected(spec.selector, metadata.labels)
    yield from names.of_labels(f"{TEMPLATE}.labels", metadata.labels)
    yield from names.of_annotations(f"{TEMPLATE}.annotations", metadata.annotations)
    stored = replace(pod, volumes=_volumes(spec, pod), hostname=None)
    yield from pods.of_spec(f"{TEMPLATE}.spec", stored, metadata.labels or {})
    yield from pods.of_restart_policy(f"{TEMPLATE}.spec", pod)
    if pod.restart_policy not in (None, "", pods.ALWAYS):
        yield not_supported(f"{TEMPLATE}.spec.restartPolicy", pod.restart_policy, (pods.ALWAYS,))
    if pod.active_deadline_seconds is not None:
        yield forbidden(f"{TEMPLATE}.spec.activeDeadlineSeconds", UNSUPPORTED)


def _volumes(spec: kube.WorkloadSpec, pod: kube.TemplateSpec) -> list[kube.TemplateVolume]:
    """Return the volumes of the pods. A claim template replaces a volume of the pod template with the same name."""
    templates = dict.fromkeys(each.metadata.name for each in spec.volume_claim_templates or ())
    claims = [kube.TemplateVolume(name=name, persistent_volume_claim=Claim(name)) for name in templates]
    return [*claims, *(volume for volume in pod.volumes or () if volume.name not in templates)]
