"""Find which value of the chart (such as s3.secretName) names an object that a pod needs."""

from __future__ import annotations

from distrain.workload.manifest import Job

S3_KEY = "AWS_ACCESS_KEY_ID"


def s3_secret(job: Job) -> str:
    """Return the name of the Secret with the S3 keys (s3.secretName), or an empty text if there is no such Secret."""
    variables = [each for role in job.roles for container in role.spec.containers or () for each in container.env or ()]
    sources = [each.value_from for each in variables if each.name == S3_KEY and each.value_from]
    return next((each.secret_key_ref.name for each in sources if each.secret_key_ref), "")
