"""Test Pod Security admission: the level that a namespace's labels enforce, and the messages about refused pods.

The environment variable RANDOM_VALUES sets the number of random pods. A failure names the seed of the pod. Call
random_pod(seed) to get the pod.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.admission.pod_security import CHECKS, LEVEL, VERSION, Standard, _checks, enforced, violated
from distrain.admission.pod_security_check import Pod
from distrain.check.report import Report
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, from_manifest
from tests.chart import many
from tests.chart.kinds import KINDS, TRAINS, every_kind
from tests.chart.rendering import render_with
from tests.plugin.admission.random_security import random_pod
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.objects import Object, batch_job, mpi_job, namespace, node, of_another_tool, pytorch_job, with_images

COUNT = int(os.environ.get("RANDOM_VALUES", "500"))
ROOM = [node("a", {"ephemeral-storage": "100Gi"}, gpu="8")]
RDMA = ("network.rdma.resource=vpc.amazonaws.com/efa", "network.rdma.count=4")

PROFILE = {"seccompProfile": {"type": "RuntimeDefault"}}
STRICT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _pod(security: Object, **own: Any) -> Object:
    """Return a pod spec with the fields of `own` and with a container that has the security context `security`."""
    return {"securityContext": {**PROFILE, **own}, "containers": [{"name": "main", "securityContext": security}]}


RESTRICTED = _pod(STRICT, runAsNonRoot=True)
BASELINE = _pod({"allowPrivilegeEscalation": False}, runAsUser=0)
HOST = {**RESTRICTED, "hostNetwork": True}
OWN = {"version": "v1", "launcher": RESTRICTED}


def _judged(job: Job, level: str, version: str = "") -> Report:
    team = namespace("team", level)
    team["metadata"]["labels"] |= {VERSION: version} if version else {}
    return judged(job, ROOM, others=[{"kind": "Namespace", **team}])


def _job(worker: Object, **more: Any) -> Job:
    return chart_job(gpus=1, worker=worker, **{"launcher": worker, **more})


def _step(place: str, level: str, change: str, other: str) -> str:
    """Return the next step that `check` must suggest for pods that `level` refuses and `other` admits."""
    refusal = f"{place}: namespace team enforces Pod Security {level}:latest, which refuses these pods."
    return f"{refusal} {change}, or take a namespace that enforces {other} (label {LEVEL})."


@pytest.mark.parametrize(
    ("job", "level", "words", "step"),
    [
        pytest.param(
            _job(BASELINE, launcher=RESTRICTED),
            "restricted",
            'violates PodSecurity "restricted:latest": unrestricted capabilities (container "main" must set '
            'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "main" must set '
            "securityContext.runAsNonRoot=true), runAsUser=0 (pod must not set runAsUser=0)",
            _step("workers", "restricted", "Set podSecurity: restricted", "baseline"),
            id="baseline-in-restricted",
        ),
        pytest.param(
            _job(HOST, launcher=RESTRICTED),
            "baseline",
            'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
            _step("workers", "baseline", "Change the fields that violate it", "privileged"),
            id="host-network-in-baseline",
        ),
        pytest.param(
            _job({**BASELINE, "hostPID": True}, launcher=RESTRICTED),
            "baseline",
            'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)',
            _step("workers", "baseline", "Set podSecurity: baseline and leave out what it forbids", "privileged"),
            id="privileged-in-baseline",
        ),
        pytest.param(
            _job(RESTRICTED, version="v1"),
            "restricted",
            'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "kubectl-delivery" '
            "must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "
            '"kubectl-delivery" must set securityContext.capabilities.drop=["ALL"])',
            "launcher: namespace team refuses container kubectl-delivery, which the operator adds. Take a namespace "
            "that enforces baseline, or another kind of job (job.kind, job.apiVersion).",
            id="container-of-the-operator",
        ),
        *(
            pytest.param(
                _job(BASELINE, launcher=launcher, version="v1"),
                "restricted",
                None,
                "launcher: namespace team refuses container kubectl-delivery, which the operator adds. Take a "
                f"namespace that enforces {admitting}, or another kind of job (job.kind, job.apiVersion).",
                id=f"container-of-the-operator-beside-own-ones-for-{admitting}",
            )
            for launcher, admitting in ((BASELINE, "baseline"), (HOST, "privileged"))
        ),
        pytest.param(
            _job(HOST, launcher=RESTRICTED, version="v1"),
            "restricted",
            None,
            "launcher: namespace team refuses container kubectl-delivery, which the operator adds. Take a namespace "
            "that enforces privileged, or another kind of job (job.kind, job.apiVersion).",
            id="namespace-that-admits-all-roles",
        ),
        pytest.param(
            _job(RESTRICTED, launcher=HOST, version="v1"),
            "baseline",
            'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
            _step("launcher", "baseline", "Change the fields that violate it", "privileged"),
            id="host-network-beside-a-container-of-the-operator",
        ),
        pytest.param(
            job_of(of_another_tool(mpi_job(gpus=1, worker=BASELINE, launcher=RESTRICTED))),
            "restricted",
            None,
            _step("worker", "restricted", "Change the fields that violate it", "baseline"),
            id="another-tool",
        ),
        pytest.param(
            _job(BASELINE),
            "restricted",
            None,
            _step("launcher and workers", "restricted", "Set podSecurity: restricted", "baseline"),
            id="several-roles",
        ),
    ],
)
def test_pods_that_violate_the_namespaces_standard_are_refused(
    job: Job, level: str, words: str | None, step: str
) -> None:
    answer = _judged(job, level)

    assert answer.verdict == Verdict.IMPOSSIBLE
    assert answer.next == step
    assert words in (None, answer.reasons[0].reason)


@pytest.mark.parametrize(
    ("job", "level"),
    [
        pytest.param(_job(BASELINE), "", id="no-label"),
        pytest.param(_job(BASELINE), "baseline", id="baseline"),
        pytest.param(_job(HOST), "privileged", id="privileged"),
        pytest.param(_job(RESTRICTED), "restricted", id="restricted"),
        pytest.param(_job(RESTRICTED, version="v1"), "baseline", id="container-of-the-operator-in-baseline"),
        pytest.param(_job({**RESTRICTED, "volumes": [{"name": "work"}]}), "restricted", id="volume-is-an-empty-dir"),
    ],
)
def test_pods_that_keep_to_the_namespaces_standard_fit(job: Job, level: str) -> None:
    assert _judged(job, level).verdict == Verdict.FITS


def test_container_of_the_operator_in_a_later_role_is_the_first_advice() -> None:
    # The Master, which has no init container of the operator, comes first.
    job = pytorch_job(workers=2, gpus=1, master=True)

    answer = _judged(job_of(job), "restricted")

    assert "refuses container init-pytorch, which the operator adds. Take a namespace that enforces" in answer.next


def test_checks_are_those_of_the_namespaces_version() -> None:
    job = _job({**RESTRICTED, "securityContext": {"runAsNonRoot": True}})

    assert _judged(job, "restricted", "v1.18").verdict == Verdict.FITS
    assert _judged(job, "restricted", "v1.19").reasons[0].reason.startswith('violates PodSecurity "restricted:v1.19": ')


@pytest.mark.parametrize(
    ("labels", "standard"),
    [
        pytest.param({}, "privileged:latest", id="nothing"),
        pytest.param({VERSION: "v1.25"}, "privileged:v1.25", id="version-alone"),
        pytest.param({LEVEL: "baseline"}, "baseline:latest", id="level-alone"),
        pytest.param({LEVEL: "strict", VERSION: "v1.25"}, "restricted:v1.25", id="unknown-level"),
        pytest.param({LEVEL: "baseline", VERSION: "1.25"}, "baseline:latest", id="unknown-version"),
    ],
)
def test_labels_that_name_nothing_known_count_as_the_strictest_and_latest(
    labels: dict[str, str], standard: str
) -> None:
    assert str(enforced(labels)) == standard


def test_annotations_of_the_template_count() -> None:
    job = mpi_job(gpus=1, worker=RESTRICTED, launcher=RESTRICTED)
    metadata = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    metadata["annotations"] = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}

    [reason] = _judged(job_of(job), "baseline").reasons

    assert "annotation must not set AppArmor profile type to" in reason.reason


def test_profiles_that_an_old_operator_drops_are_missed() -> None:
    job = _job(RESTRICTED, version="v1alpha2", launcher={**RESTRICTED, "initContainers": []})

    answer = _judged(job, "restricted")

    missing = 'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to'
    assert any(missing in reason.reason for reason in answer.reasons)


def _words(pod: many.Pod) -> str:
    spec, annotations = msgspec.convert(pod.spec, kube.TemplateSpec), pod.metadata["annotations"]
    return violated(enforced({LEVEL: pod.level, VERSION: pod.version}), Pod(spec, annotations))


@pytest.fixture(scope="module")
def compared() -> list[tuple[int, str, str]]:
    """Return, for each random pod, the seed, the plugin's message and the API server's message."""
    pods = [random_pod(seed) for seed in range(COUNT)]
    return [(seed, _words(pods[seed]), words) for seed, words in enumerate(many.violations(pods))]


def test_random_pods_are_refused_as_kubernetes_does(compared: Sequence[tuple[int, str, str]]) -> None:
    different = [(seed, ours, theirs) for seed, ours, theirs in compared if ours != theirs]

    assert len(compared) == COUNT
    assert different[:3] == []


def test_every_level_admits_and_refuses_random_pods(compared: Sequence[tuple[int, str, str]]) -> None:
    answers = Counter((random_pod(seed).level, words != "") for seed, _, words in compared)

    both = [answers[level, is_refused] for level in ("baseline", "restricted") for is_refused in (False, True)]
    assert min(both) > COUNT // 50
    assert answers["privileged", True] == 0


def test_every_check_refuses_some_random_pod(compared: Sequence[tuple[int, str, str]]) -> None:
    pods = [(seed, random_pod(seed)) for seed, _, words in compared if words]
    judged = {(seed, check) for seed, pod in pods for check in _refusing(pod)}
    times = Counter(check for _, check in judged)

    assert min(times[each.name, each.since] for each in CHECKS["restricted"]) > 0


def _refusing(pod: many.Pod) -> Iterator[tuple[str, int]]:
    found = Pod(msgspec.convert(pod.spec, kube.TemplateSpec), pod.metadata["annotations"])
    yield from ((check.name, check.since) for check in CHECKS["restricted"] if check.judge(found))


@every_kind
@pytest.mark.parametrize("level", ["restricted", "baseline", "privileged"])
def test_charts_pods_keep_to_the_standard_of_the_values(helm4: Path, kind: str, level: str) -> None:
    more = RDMA if level == "privileged" else ()
    rendered = render_with(helm4, (*KINDS[kind], f"podSecurity={level}", *more))

    for role, spec in rendered.pods().items():
        pod = Pod(msgspec.convert(spec, kube.TemplateSpec), rendered.metadata(role).get("annotations", {}))
        admitting = {each for each in CHECKS if not violated(Standard(each), pod)}
        locks_memory = level == "privileged" and role in TRAINS
        assert admitting == {
            "privileged",
            *(["baseline"] if not locks_memory else []),
            *(["restricted"] if level == "restricted" else []),
        }


@every_kind
def test_restricted_namespace_takes_the_charts_pods_unless_the_operator_changes_them(helm4: Path, kind: str) -> None:
    job = from_manifest(render_with(helm4, KINDS[kind]).text, "--chart")

    refused = [role.name for role in job.roles if violated(Standard("restricted"), Pod(role.spec, role.annotations))]

    changed = {
        "mpijob-v1": ["launcher"],
        "mpijob-v1alpha2": ["launcher", "worker"],
        "pytorchjob-master": ["worker"],
        "mxjob-v1beta1": ["scheduler", "server", "worker"],
    }
    assert refused == changed.get(kind, [])


def test_first_version_has_the_checks_that_later_ones_began_with() -> None:
    standards = Standard("baseline", 0), Standard("restricted", 0)
    baseline, restricted = ([check.name for check in _checks(standard)] for standard in standards)

    assert baseline == [
        "appArmorProfile", "capabilities_baseline", "hostNamespaces", "hostPathVolumes", "hostPorts", "privileged",
        "procMount", "seLinuxOptions", "seccompProfile_baseline", "sysctls", "windowsHostProcess",
    ]  # fmt: skip
    # restrictedVolumes replaces hostPathVolumes.
    kept = [name for name in baseline if name != "hostPathVolumes"]
    assert restricted == [*kept, "restrictedVolumes", "runAsNonRoot"]


# Depending on its version, the API server admits or refuses these pods.
IN_USER_NAMESPACE = {**_pod(STRICT), "hostUsers": False}
PROBED = {"containers": [{"name": "main", "livenessProbe": {"tcpSocket": {"host": "example.com", "port": 80}}}]}


def _server(version: str) -> Object:
    return {"kind": "Snapshot", "read": {"Namespace": []}, "capabilities": {"version": version, "apis": []}}


@pytest.mark.parametrize(
    ("pod", "level", "label", "server", "verdict"),
    [
        (IN_USER_NAMESPACE, "restricted", "latest", "v1.34.4-eks-1a2b3c", "impossible"),
        (IN_USER_NAMESPACE, "restricted", "v1.36", "v1.34.4", "impossible"),
        (IN_USER_NAMESPACE, "restricted", "latest", "v1.35.0", "fits"),
        (IN_USER_NAMESPACE, "restricted", "v1.34", "v1.35.0", "impossible"),
        (PROBED, "baseline", "latest", "v1.33.9", "fits"),
        (PROBED, "baseline", "latest", "1.34+", "impossible"),
        (PROBED, "baseline", "latest", "unknown", "impossible"),
    ],
)
def test_api_server_has_no_newer_checks_than_its_version(
    pod: Object, level: str, label: str, server: str, verdict: str
) -> None:
    team = {"kind": "Namespace", **namespace("team", level)}
    team["metadata"]["labels"] |= {VERSION: label}

    assert judged(_batch(pod), ROOM, others=[team, _server(server)]).verdict == verdict


@pytest.mark.parametrize(
    ("pod", "level", "version", "is_open"),
    [
        (IN_USER_NAMESPACE, "restricted", "latest", True),
        (IN_USER_NAMESPACE, "restricted", "v1.34", False),
        (IN_USER_NAMESPACE, "baseline", "latest", False),
        (PROBED, "baseline", "", True),
        (RESTRICTED, "restricted", "latest", False),
    ],
)
def test_unknown_version_of_the_api_server_is_said_where_it_matters(
    pod: Object, level: str, version: str, is_open: bool
) -> None:
    words = f"the version of the API server, which decides what Pod Security {level}:latest refuses"

    assert _judged(_batch(pod), level, version).unseen == ([words] if is_open else [])


def _batch(pod: Object) -> Job:
    return job_of(batch_job("a", {"spec": with_images(pod)}))
