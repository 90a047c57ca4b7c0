"""Recognize the objects and pods of the chart, and find which value of the chart names an object that a pod needs."""

from __future__ import annotations

from collections.abc import Mapping

from distrain.workload.manifest import CHART, INSTANCE_LABEL, NAME_LABEL, Job

# If Argo CD tracks the objects that it creates by a label, it replaces the value of INSTANCE_LABEL by the name of the
# Application. It never changes OWN_LABEL. Argo CD does not create the pods of a job, so their INSTANCE_LABEL keeps its
# value, and they need no OWN_LABEL.
OWN_LABEL = "distrain/instance"
S3_KEY = "AWS_ACCESS_KEY_ID"


def is_of_chart(labels: Mapping[str, str]) -> bool:
    """Tell from the labels of a pod whether the pod belongs to a release of the chart."""
    return labels.get(NAME_LABEL) == CHART


def instance_of(labels: Mapping[str, str] | None) -> str:
    """Return the release of an object or a pod with these labels. Return "" if the chart has not set the labels."""
    labels = labels or {}
    return labels.get(OWN_LABEL, labels.get(INSTANCE_LABEL, "")) if is_of_chart(labels) else ""


def s3_secret(job: Job) -> str:
    """Return the name of the Secret with the S3 keys (s3.secretName), or an empty text if there is no such Secret."""
    variables = [each for role in job.roles for container in role.spec.containers or () for each in container.env or ()]
    sources = [each.value_from for each in variables if each.name == S3_KEY and each.value_from]
    return next((each.secret_key_ref.name for each in sources if each.secret_key_ref), "")
