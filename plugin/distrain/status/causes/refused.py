"""Explain from the events about a job why the API server refuses the job's pods.

Controllers quote the API server's answer: the Job controller and training-operator after "Error creating: ", and
mpi-operator after "worker pod created failed: ". The answers come from admission plugins: ResourceQuota, LimitRanger,
Pod Security, ServiceAccount, Priority, RuntimeClass, and webhooks.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence

from distrain import kube
from distrain.kube.quantities import QuantityError
from distrain.progress.causes import Cause, by_rules, quoted
from distrain.progress.start import LAUNCHER
from distrain.status.causes import quota_advice
from distrain.workload.kinds import FACTS
from distrain.workload.manifest import WORKER, Job

ANSWER = re.compile(r"^(?:Error creating: |(?:worker|launcher) pod created failed: )+(?P<words>.*)$")
FORBIDDEN = re.compile(r'^pods? "(?P<pod>[^"]*)" is (?:forbidden|invalid): (?P<words>.*)$')
EXCEEDED = (
    r"^exceeded quota: (?P<quota>\S+), requested: (?P<requested>.*), used: (?P<used>.*), limited: (?P<limited>.*)$"
)
# These rules are for the API server's answers.
RULES = (
    (
        EXCEEDED,
        "quota {quota} of the namespace leaves no room: requested {requested}, used {used}, limited {limited}",
        "free that much in the namespace, make the run smaller with {smaller}, or have the quota raised",
    ),
    (
        r"^failed quota: (?P<quota>[^:]+): must specify (?P<fields>.*)$",
        "quota {quota} of the namespace asks each container for {fields}",
        "set {role}.cpu or {role}.memory, or have a LimitRange of the namespace set it",
    ),
    (
        r"^(?P<rule>(?:maximum|minimum) (?P<resource>\S+) usage per (?:Container|Pod) is .*)$",
        "the LimitRange of the namespace refuses the {role}: {rule}",
        "choose {role}.{resource} within it, or have the LimitRange changed",
    ),
    (
        r"^(?P<rule>.*max limit to request ratio per .*)$",
        "the LimitRange of the namespace refuses the {role}: {rule}",
        "set {role}.cpu or {role}.memory, or have the LimitRange changed",
    ),
    (
        r'^violates PodSecurity "(?P<level>[a-z]+)[^"]*": (?P<rule>.*)$',
        'the namespace enforces Pod Security "{level}": {rule}',
        "remove that from the values, set podSecurity to {level}, or run it in another namespace",
    ),
    (
        r'serviceaccount "(?P<account>[^"]+)" not found$',
        "serviceAccountName: there is no ServiceAccount {account} in the namespace",
        "create it, or correct serviceAccountName",
    ),
    (
        r"^no PriorityClass with name (?P<name>\S+) was found$",
        "priorityClassName: the cluster has no PriorityClass {name}",
        "correct it: `kubectl get priorityclasses` lists the existing ones",
    ),
    (
        r'RuntimeClass "(?P<name>[^"]+)" not found$',
        "{role}.podSpec.runtimeClassName: the cluster has no RuntimeClass {name}",
        "correct it: `kubectl get runtimeclasses` lists the existing ones",
    ),
    (
        r'admission webhook "(?P<name>[^"]+)" denied the request: (?P<rule>.*)$',
        "the cluster's rules ({name}) refuse the pods: {rule}",
        "change the values so that the pods keep to the rule, or ask those who run {name}",
    ),
    (
        r"ValidatingAdmissionPolicy '(?P<name>[^']+)' with binding '[^']+' denied request: (?P<rule>.*)$",
        "the cluster's rules ({name}) refuse the pods: {rule}",
        "change the values so that the pods keep to the rule, or ask those who run {name}",
    ),
    (
        r'failed calling webhook "(?P<name>[^"]+)": (?P<rule>.*)$',
        "the cluster's webhook {name} does not answer: {rule}",
        "wait; if this lasts, ask those who run it",
    ),
    (
        r"because it is being terminated$",
        "the namespace is being deleted",
        "install the run in another namespace",
    ),
    (
        r"Resource \"(?P<name>[^\"]+)\" of Kind \"(?P<kind>[^\"]+)\" already exists",
        "the {kind} {name} is there already, and belongs to something else",
        "delete it, or give the run another name",
    ),
    (
        r'User "(?P<user>[^"]+)" cannot create resource "(?P<what>[^"]+)"',
        "the operator ({user}) may not create {what}",
        "install the operator's roles again",
    ),
)  # fmt: skip


def cause_of(events: Iterable[kube.Event], smaller: str, pods: Sequence[kube.Pod], job: Job) -> Cause | None:
    """Return why the API server refuses pods, from the newest event that says so. Return None if no event says why.

    `smaller` is the command that makes the run smaller, and `pods` are the run's pods.
    """
    for event in reversed(list(events)):
        message = quoted(event.message)
        if cause := _explained(message, smaller):
            told = re.search(EXCEEDED, message.partition(" is forbidden: ")[2])
            return Cause(cause.why, _of_quota(told, cause.next, smaller, pods, job)) if told else cause
    return None


def _explained(message: str, smaller: str) -> Cause | None:
    answer = found["words"] if (found := ANSWER.match(message)) else message
    refused = FORBIDDEN.match(answer)
    words, pod = (refused["words"], refused["pod"]) if refused else (answer, "")
    if cause := by_rules(RULES, words, role=_section(pod), smaller=smaller):
        return cause
    return Cause(f"the API server refuses {pod or 'a pod'}: {words}", "correct what it names") if refused else None


def _of_quota(told: re.Match[str], then: str, smaller: str, pods: Sequence[kube.Pod], job: Job) -> str:
    """Return what the user should do about an exceeded quota.

    If an amount in the API server's answer cannot be parsed, return `then`.
    """
    with contextlib.suppress(QuantityError):
        return quota_advice.next_step(told.groupdict(), smaller, pods, job)
    return then


def _section(pod: str) -> str:
    """Return the section of the chart's values for a pod. The pod's name contains its role."""
    return FACTS.roles[LAUNCHER if f"-{LAUNCHER}" in pod else WORKER]
