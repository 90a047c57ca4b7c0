"""Validate a Job of Kubernetes (pkg/apis/batch/validation/validation.go)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from distrain import kube
from distrain.admission.validation import names, pods
from distrain.admission.validation.field_errors import NOT_NEGATIVE, invalid, listed, not_supported, required
from distrain.admission.validation.selectors import of_label_selector
from distrain.kube.selectors import selects

TEMPLATE = "spec.template"
INDEXED, NOT_INDEXED = "Indexed", "NonIndexed"
MOST_INDEXED = 100_000
# The labels that the API server adds: the Job's name, and its UID.
OF_NAME = ("batch.kubernetes.io/job-name", "job-name")
OF_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")
MISMATCH = "`selector` does not match template `labels`"


def of_job(job: kube.Workload) -> Iterator[str]:
    """Validate a Job."""
    template = job.spec.template or kube.PodTemplate()
    spec, metadata = template.spec or kube.TemplateSpec(), template.metadata or kube.TemplateMetadata()
    yield from names.of_metadata(job.metadata)
    yield from _of_numbers(job.spec)
    yield from _of_mode(job)
    labels = {**_generated(job), **(metadata.labels or {})}
    yield from names.of_labels(f"{TEMPLATE}.labels", labels)
    yield from names.of_annotations(f"{TEMPLATE}.annotations", metadata.annotations)
    yield from pods.of_spec(f"{TEMPLATE}.spec", spec, labels)
    yield from _of_restart_policy(spec)
    yield from _of_selector(job, metadata.labels)


def of_selected(selector: kube.LabelSelector | None, labels: dict[str, str] | None) -> Iterator[str]:
    """Yield a message if the selector of a Job or StatefulSet does not match the labels of its pod template."""
    if not selects(selector, labels or {}):
        yield invalid(f"{TEMPLATE}.metadata.labels", labels, MISMATCH)


def _of_numbers(spec: kube.WorkloadSpec) -> Iterator[str]:
    numbers = {
        "parallelism": spec.parallelism,
        "completions": spec.completions,
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "backoffLimit": spec.backoff_limit,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "maxFailedIndexes": spec.max_failed_indexes,
    }
    for key, number in numbers.items():
        if number is not None and number < 0:
            yield invalid(f"spec.{key}", number, NOT_NEGATIVE)
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _of_mode(job: kube.Workload) -> Iterator[str]:
    spec, mode, completions = job.spec, job.spec.completion_mode, job.spec.completions
    if mode not in (None, NOT_INDEXED, INDEXED):
        yield not_supported("spec.completionMode", mode, (NOT_INDEXED, INDEXED))
    if mode in (None, NOT_INDEXED):
        yield from _of_indexes(spec)
    if mode != INDEXED:
        return
    if completions is None and spec.parallelism is None:
        completions = 1  # The API server's default.
    if completions is None:
        yield required("spec.completions", f"when completion mode is {INDEXED}")
    if (spec.parallelism or 0) > MOST_INDEXED:
        rule = f"must be less than or equal to {MOST_INDEXED} when completion mode is {INDEXED}"
        yield invalid("spec.parallelism", spec.parallelism, rule)
    yield from _of_hostname(job.metadata.name, completions or 0)


def _of_indexes(spec: kube.WorkloadSpec) -> Iterator[str]:
    """Yield a message for each field that only an Indexed Job can have."""
    numbers = {"backoffLimitPerIndex": spec.backoff_limit_per_index, "maxFailedIndexes": spec.max_failed_indexes}
    for key, number in numbers.items():
        if number is not None:
            yield invalid(f"spec.{key}", number, "requires indexed completion mode")


def _of_hostname(name: str, completions: int) -> Iterator[str]:
    """Validate the hostname of an Indexed Job's last pod: the Job's name, a hyphen, and the pod's index."""
    hostname = f"{name}-{completions - 1}"
    if name and completions > 0 and names.dns_label(hostname):
        yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")


def _generated(job: kube.Workload) -> dict[str, str]:
    """Return the labels that the API server adds to the pod template and whose value is the Job's name.

    These labels are invalid if the Job's name is no valid label value.
    """
    return {} if job.spec.manual_selector else dict.fromkeys(OF_NAME, job.metadata.name)


def _of_restart_policy(spec: kube.TemplateSpec) -> Iterator[str]:
    path, allowed = f"{TEMPLATE}.spec.restartPolicy", (pods.ON_FAILURE, pods.NEVER)
    yield from pods.of_restart_policy(f"{TEMPLATE}.spec", spec)
    if spec.restart_policy in (None, "", pods.ALWAYS):
        yield required(path, f"valid values: {listed(allowed)}")
    elif spec.restart_policy not in allowed:
        yield not_supported(path, spec.restart_policy, allowed)


def _of_selector(job: kube.Workload, labels: dict[str, str] | None) -> Iterator[str]:
    selector = job.spec.selector
    if not job.spec.manual_selector:
        yield from _of_generated(job, labels or {})
        return
    if not selector:
        yield required("spec.selector")
        return
    wrong = list(of_label_selector("spec.selector", selector))
    yield from wrong or of_selected(selector, labels)


def _of_generated(job: kube.Workload, labels: dict[str, str]) -> Iterator[str]:
    """Validate the user's selector and labels against the labels that the API server generates."""
    for key in (*OF_UID, *OF_NAME):
        if key in labels and (key in OF_UID or labels[key] != job.metadata.name):
            yield invalid(f"{TEMPLATE}.metadata.labels[{key}]", labels, f"must be '{_expected(job, key)}'")
    selector = job.spec.selector
    if not selector:
        return
    wrong = list(of_label_selector("spec.selector", selector))
    yield from wrong
    if not wrong and not selects(selector, dict.fromkeys(OF_NAME, job.metadata.name)):
        yield invalid("spec.selector", msgspec.to_builtins(selector), "`selector` not auto-generated")
    if not wrong:
        yield from of_selected(selector, {**labels, **dict.fromkeys(OF_NAME, job.metadata.name)})


def _expected(job: kube.Workload, key: str) -> str:
    return job.metadata.name if key in OF_NAME else "the Job's UID"
