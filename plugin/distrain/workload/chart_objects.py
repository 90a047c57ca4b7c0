"""Recognize the objects and pods of the chart, and find which value of the chart names an object that a pod needs."""

from __future__ import annotations

from collections.abc import Mapping

from distrain.workload.manifest import CHART, INSTANCE_LABEL, NAME_LABEL, Job

# INSTANCE_LABEL is Argo CD's default for the label with which it tracks the objects that it creates. It then replaces
# the chart's value by the name of the Application, but never changes OWN_LABEL. The pods of a job have no OWN_LABEL,
# because Argo CD does not create them.
OWN_LABEL = "distrain/instance"
S3_KEY = "AWS_ACCESS_KEY_ID"


def is_of_chart(labels: Mapping[str, str]) -> bool:
    """Tell from the labels of a pod whether the pod belongs to a release of the chart."""
    return labels.get(NAME_LABEL) == CHART


def instance_of(labels: Mapping[str, str] | None) -> str:
    """Return the release that the labels of an object or a pod name, or "" if they are not labels of the chart."""
    labels = labels or {}
    return labels.get(OWN_LABEL, labels.get(INSTANCE_LABEL, "")) if is_of_chart(labels) else ""


def s3_secret(job: Job) -> str:
    """Return the name of the Secret with the S3 keys (s3.secretName), or an empty text if there is no such Secret."""
    variables = [each for role in job.roles for container in role.spec.containers or () for each in container.env or ()]
    sources = [each.value_from for each in variables if each.name == S3_KEY and each.value_from]
    return next((each.secret_key_ref.name for each in sources if each.secret_key_ref), "")
