"""Causes for which the API server refuses to create the pods of a run."""

from __future__ import annotations

from typing import Any

from tests.cluster.why.case import Case, Said
from tests.cluster.why.stages import limits, quota, with_cluster_objects

RULES = "admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def _only(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _dead_webhook(namespace: str) -> dict[str, Any]:
    webhook = {
        "name": "inject.example.com",
        "clientConfig": {"service": {"name": "nobody", "namespace": namespace, "path": "/"}},
        "rules": [PODS],
        "namespaceSelector": _only(namespace),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    metadata = {"name": f"{namespace}-webhook"}
    return {"apiVersion": RULES, "kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [webhook]}


def _policy(namespace: str) -> dict[str, Any]:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [PODS], "namespaceSelector": _only(namespace)},
        "validations": [{"expression": "false", "message": "name a cost centre"}],
    }
    metadata = {"name": f"{namespace}-policy"}
    return {"apiVersion": RULES, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}


def _binding(namespace: str) -> dict[str, Any]:
    spec = {"policyName": f"{namespace}-policy", "validationActions": ["Deny"]}
    metadata = {"name": f"{namespace}-binding"}
    return {"apiVersion": RULES, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": spec}


QUOTA = Said(
    "Pending",
    "quota gpus of the namespace leaves no room: requested requests.nvidia.com/gpu=1, "
    "used requests.nvidia.com/gpu=0, limited requests.nvidia.com/gpu=0",
    "ask for less, or have the quota raised: one pod alone is more than it allows",
)
CASES = (
    Case("quota", QUOTA, {"workers.gpus": 1}, stage=quota("gpus", requests_nvidia_com__gpu="0")),
    Case(
        "quota, with Kubernetes' own Jobs",
        QUOTA,
        {"workers.gpus": 1, "job.kind": "Plain"},
        stage=quota("gpus", requests_nvidia_com__gpu="0"),
    ),
    Case(
        "quota that asks for limits",
        Said(
            "Pending",
            "quota small of the namespace asks each container for limits.memory for: worker",
            "set workers.cpu or workers.memory, or have a LimitRange of the namespace set it",
        ),
        stage=quota("small", limits_memory="10Gi"),
    ),
    Case(
        "LimitRange",
        Said(
            "Pending",
            "the LimitRange of the namespace refuses the workers: maximum memory usage per Container is 400Mi, but "
            "limit is 600Mi",
            "choose workers.memory within it, or have the LimitRange changed",
        ),
        {"workers.memory": "600Mi"},
        stage=limits("Container", max={"memory": "400Mi"}),
    ),
    Case(
        "LimitRange, for the launcher",
        Said(
            "Pending",
            "the LimitRange of the namespace refuses the launcher: maximum memory usage per Container is 400Mi, but "
            "limit is 512Mi",
            "choose launcher.memory within it, or have the LimitRange changed",
        ),
        stage=limits("Container", max={"memory": "400Mi"}),
    ),
    Case(
        "Pod Security",
        Said(
            "Pending",
            'the namespace enforces Pod Security "restricted": host namespaces (hostNetwork=true), hostPort (container '
            '"worker" uses hostPort 2222), unrestricted capabilities (container "worker" must set '
            'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "worker" must set '
            "securityContext.runAsNonRoot=true), runAsUser=0 (pod must not set runAsUser=0)",
            "remove that from the values, set podSecurity to restricted, or run it in another namespace",
        ),
        {"podSecurity": "privileged", "workers.podSpec.hostNetwork": True},
    ),
    Case(
        "ServiceAccount missing",
        Said(
            "Pending",
            "serviceAccountName: there is no ServiceAccount robot in the namespace",
            "create it, or correct serviceAccountName",
        ),
        {"serviceAccountName": "robot"},
    ),
    Case(
        "PriorityClass missing",
        Said(
            "Pending",
            "priorityClassName: the cluster has no PriorityClass urgent",
            "correct it: `kubectl get priorityclasses` lists the existing ones",
        ),
        {"priorityClassName": "urgent"},
    ),
    Case(
        "RuntimeClass missing",
        Said(
            "Pending",
            "workers.podSpec.runtimeClassName: the cluster has no RuntimeClass nvidia",
            "correct it: `kubectl get runtimeclasses` lists the existing ones",
        ),
        {"workers.podSpec.runtimeClassName": "nvidia"},
    ),
    Case(
        "webhook that does not answer",
        Said(
            "Pending",
            "the cluster's webhook inject.example.com does not answer: failed to call webhook: Post "
            '"https://nobody.team.svc:443/?timeout=10s": service "nobody" not found',
            "wait; if this lasts, ask those who run it",
        ),
        stage=with_cluster_objects(_dead_webhook),
    ),
    Case(
        "policy of the cluster",
        Said(
            "Pending",
            "the cluster's rules (team-policy) refuse the pods: name a cost centre",
            "change the values so that the pods keep to the rule, or ask those who run team-policy",
        ),
        stage=with_cluster_objects(_policy, _binding),
    ),
)
