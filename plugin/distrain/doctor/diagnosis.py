"""Diagnose a cluster: report its parts and the user's rights, and whether a job can run in it.

The functions of this module only compute findings from a Survey; they do not read the cluster. A part that the user may
not read gets the state `unknown`. Such a part does not change the verdict: only a part that is known to be missing
does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import semver
from msgspec import Struct, to_builtins

from distrain import __version__, kube
from distrain.admission.pod_security import LEVEL
from distrain.doctor import gpus, needs, operators, rights
from distrain.doctor.findings import ABSENT, LEFT, MISSING, OK, UNKNOWN, WARNING, Finding, some
from distrain.doctor.rights import Purpose
from distrain.doctor.survey import Survey, Unread
from distrain.helm.program import OLDEST as OLDEST_HELM
from distrain.lint.rules import warnings
from distrain.release.orphans import Orphan
from distrain.workload.kinds import PLAIN, Kind
from distrain.workload.manifest import Job
from distrain.workload.wording import listed

READY, NOT_READY = 0, 11
# The tests of distrain run on these versions: the oldest minor version of each major version of Helm, and one version
# of Kubernetes.
TESTED_HELM = {3: 21, 4: 2}
TESTED_KUBERNETES = (1, 34)
# This version must equal `kubeVersion` in Chart.yaml.
OLDEST_KUBERNETES = (1, 27)
KUBERNETES = re.compile(r"v?(\d+)\.(\d+)")

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
# Volumes of provisioners whose names end in these suffixes support ReadWriteMany.
SHARED = (
    "efs.csi.aws.com",
    "fsx.csi.aws.com",
    "file.csi.azure.com",
    "filestore.csi.storage.gke.io",
    "lustre.csi.storage.gke.io",
    "nfs.csi.k8s.io",
    "nfs-subdir-external-provisioner",
    "cephfs.csi.ceph.com",
    "csi.juicefs.com",
    "csi.weka.io",
    "beegfs.csi.netapp.com",
    "spectrumscale.csi.ibm.com",
)
INIT_CONTAINERS = "the init container that its operator adds"


class Diagnosis(Struct, frozen=True):
    """All findings, and the RBAC objects that would grant the rights that the user lacks."""

    namespace: str
    findings: Sequence[Finding]
    grants: Sequence[dict[str, Any]]

    @property
    def jobs(self) -> list[Finding]:
        """Return the findings about all kinds of jobs, except kinds that certainly cannot run."""
        return [found for found in self.findings if found.section == "jobs" and found.state not in (ABSENT, MISSING)]

    @property
    def obstacles(self) -> list[Finding]:
        return [found for found in self.findings if found.needed and found.state == MISSING]

    @property
    def is_ready(self) -> bool:
        return bool(self.jobs) and not self.obstacles

    @property
    def exit_code(self) -> int:
        return READY if self.is_ready else NOT_READY

    def as_dict(self) -> dict[str, Any]:
        found = [to_builtins(finding) for finding in self.findings]
        kinds = [job.name for job in self.jobs] if self.is_ready else []
        return {
            "ready": self.is_ready,
            "namespace": self.namespace,
            "jobs": kinds,
            "findings": found,
            "grants": [*self.grants],
        }


class Run(NamedTuple):
    """The merged values of a run, and the job that the chart renders with them."""

    values: Mapping[str, Any]
    job: Job


def needed_rights(served: Sequence[str]) -> list[rights.Right]:
    """Return the rights that the API server is asked about; `served` lists the APIs that the cluster serves."""
    return rights.asked([*operators.kinds(served), PLAIN.name], served)


def diagnose(
    survey: Survey,
    helm: semver.Version | str,
    orphans: Sequence[Orphan] | Unread = (),
    run: Run | Unread | None = None,
) -> Diagnosis:
    """Turn a survey into findings. `helm` is Helm's version, or the reason why the version is not known.

    `run` is the run that the user's values describe, or None if the user gives no values.
    """
    served = [] if isinstance(survey.served, Unread) else survey.served
    purposes = rights.purposes([*operators.kinds(served), PLAIN.name], served)
    found = [
        Finding("versions", "distrain", OK, __version__),
        _helm(helm),
        _kubernetes(survey.version),
        *operators.findings(survey),
        *gpus.findings(survey),
        *_storage(survey),
        _own(survey),
        _enforcing(survey.namespaces),
        *_rights(survey, purposes),
        *_orphans(orphans),
    ]
    jobs = _jobs(survey, found)
    found = [*found, *_values(survey, run, [*found, *jobs]), *jobs]
    lacking = _lacking(survey, purposes)
    user = None if isinstance(survey.user, Unread) else survey.user
    return Diagnosis(survey.namespace, found, rights.grants(lacking, survey.namespace, user))


def _helm(version: semver.Version | str) -> Finding:
    if isinstance(version, str):
        return Finding("versions", "Helm", MISSING, version, needed=True)
    upgrade = "upgrade Helm: 3.21 and 4.2 are tested"
    if version < OLDEST_HELM:
        return Finding("versions", "Helm", MISSING, f"{version}, older than {OLDEST_HELM}", upgrade, needed=True)
    if version.minor < TESTED_HELM.get(version.major, version.minor + 1):
        return Finding("versions", "Helm", UNKNOWN, f"{version}, which no test has run on", upgrade, needed=True)
    return Finding("versions", "Helm", OK, str(version), needed=True)


def _kubernetes(version: str | Unread) -> Finding:
    if isinstance(version, Unread):
        return Finding("versions", "Kubernetes", UNKNOWN, version.why, needed=True)
    parsed = KUBERNETES.match(version)
    number = (int(parsed[1]), int(parsed[2])) if parsed else (0, 0)
    oldest, tested = (f"{major}.{minor}" for major, minor in (OLDEST_KUBERNETES, TESTED_KUBERNETES))
    if number < OLDEST_KUBERNETES:
        words = f"{version}, older than {oldest}"
        return Finding("versions", "Kubernetes", MISSING, words, f"upgrade it to {oldest} or newer", needed=True)
    if number != TESTED_KUBERNETES:
        words = f"{version}, which no test has run on"
        return Finding("versions", "Kubernetes", UNKNOWN, words, f"{tested} is tested: try `helm test` first", True)
    return Finding("versions", "Kubernetes", OK, version, needed=True)


def _storage(survey: Survey) -> list[Finding]:
    classes = survey.storage_classes
    if isinstance(classes, Unread):
        return [Finding("storage", name, UNKNOWN, classes.why) for name in ("default class", "ReadWriteMany")]
    default = [item for item in classes if (item.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"]
    shared = [item for item in classes if item.provisioner.endswith(SHARED)]
    name_it = "needed only for claims that name no class"
    use_s3 = "needed only for data and checkpoints on a volume: use S3, or install a provisioner such as csi-driver-nfs"
    return [_classes("default class", default, "there is none", name_it), _classes("ReadWriteMany", shared, "", use_s3)]


def _classes(name: str, classes: Sequence[kube.StorageClass], nothing: str, then: str) -> Finding:
    if not classes:
        return Finding("storage", name, ABSENT, nothing or "no class has a provisioner known for it", then)
    words = [f"{item.metadata.name} ({item.provisioner})" for item in classes]
    return Finding("storage", name, OK, some(words), details={"classes": [item.metadata.name for item in classes]})


def _own(survey: Survey) -> Finding:
    name, own = f"namespace {survey.namespace}", survey.own
    if isinstance(own, Unread):
        return Finding("pod security", name, UNKNOWN, own.why, needed=True)
    if own is None:
        create = f"`kubectl create namespace {survey.namespace}{survey.kubectl_flags}`"
        create += ", or --create-namespace at the installation"
        return Finding("pod security", name, MISSING, "there is none of this name", create, needed=True)
    level = _level(own)
    if level != "restricted":
        words = f"enforces {level}" if level else "enforces nothing by its labels; the cluster's default holds"
        return Finding("pod security", name, OK, words, needed=True, details={"level": level})
    words = "enforces restricted, which the chart's pods keep to"
    refused = f"{listed([*_with_init_containers()])} are refused for {INIT_CONTAINERS}"
    return Finding("pod security", name, OK, words, refused, True, {"level": level})


def _enforcing(namespaces: Sequence[kube.Named] | Unread) -> Finding:
    if isinstance(namespaces, Unread):
        return Finding("pod security", "all namespaces", UNKNOWN, namespaces.why)
    levels: dict[str, list[str]] = {}
    for item in namespaces:
        if level := _level(item):
            levels.setdefault(level, []).append(item.metadata.name)
    words = "; ".join(f"{level}: {some(levels[level])}" for level in sorted(levels))
    return Finding("pod security", "all namespaces", OK, words or "none enforces a level", details={"levels": levels})


def _level(namespace: kube.Named) -> str:
    return (namespace.metadata.labels or {}).get(LEVEL, "")


def _rights(survey: Survey, purposes: Iterable[Purpose]) -> Iterator[Finding]:
    for purpose in purposes:
        if isinstance(survey.allowed, Unread):
            yield Finding("rights", purpose.name, UNKNOWN, survey.allowed.why, needed=purpose.needed)
            continue
        lacking = [right for right in purpose.rights if right not in survey.allowed]
        if not lacking:
            yield Finding("rights", purpose.name, OK, "you may", needed=purpose.needed)
            continue
        words = f"you may not {rights.described(lacking)}"
        details = {"missing": [to_builtins(right) for right in lacking]}
        yield Finding("rights", purpose.name, MISSING, words, "have an admin grant it", purpose.needed, details)


def _orphans(orphans: Sequence[Orphan] | Unread) -> list[Finding]:
    if isinstance(orphans, Unread):
        return [Finding("releases", "orphans", UNKNOWN, orphans.why)]
    return [Finding("releases", orphan.release, LEFT, orphan.finding, orphan.next) for orphan in orphans]


def _values(survey: Survey, run: Run | Unread | None, others: Sequence[Finding]) -> list[Finding]:
    """Return the findings about the values of a run; `others` are the findings about the cluster."""
    if run is None:
        return []
    if isinstance(run, Unread):
        return [Finding("values", "workers", UNKNOWN, run.why)]
    nodes = () if isinstance(survey.nodes, Unread) else survey.nodes
    harm = warnings(run.values, run.job, nodes, with_size=True)
    found = [Finding("values", each.path, WARNING, each.found, each.better) for each in harm]
    found = [*needs.findings(run.values, run.job, others), *found]
    return found or [Finding("values", "workers", OK, "nothing in the values of the workers is known to do harm")]


def _lacking(survey: Survey, purposes: Iterable[Purpose]) -> set[rights.Right]:
    if isinstance(survey.allowed, Unread):
        return set()
    return {right for purpose in purposes for right in purpose.rights} - survey.allowed


def _with_init_containers() -> Iterator[str]:
    """For each kind of job whose operator adds an init container to pods, yield the newest version that does so."""
    for kind in reversed(operators.KINDS):
        for version in kind.versions:
            if added := version.init_container:
                form = f"{added.beside.capitalize()}/{added.role.capitalize()} {kind.name}s (job.elastic=false)"
                yield form if added.beside else f"{kind.name} {version.name}"
                break


def _jobs(survey: Survey, found: Sequence[Finding]) -> list[Finding]:
    """Return one finding for each kind of job, which tells whether it can run.

    Whether a kind can run depends on the other findings.
    """
    states = {(finding.section, finding.name): finding.state for finding in found}
    if isinstance(survey.served, Unread):
        unread = [Finding("jobs", kind.name, UNKNOWN, survey.served.why) for kind in operators.KINDS]
        return [*unread, _job(PLAIN, [], survey, states)]
    served = [(kind, operators.versions(kind, survey.served)) for kind in operators.KINDS]
    return [_job(kind, versions, survey, states) for kind, versions in [*served, (PLAIN, [])]]


def _job(kind: Kind, versions: Sequence[str], survey: Survey, states: Mapping[tuple[str, str], str]) -> Finding:
    details = {"versions": [*versions]}
    if kind != PLAIN and not versions:
        install = f"install {operators.operator_of(kind, [])}"
        return Finding("jobs", kind.name, ABSENT, "not served", install, details=details)
    served = ", ".join(versions) or "Kubernetes' own Jobs"
    needs = [("rights", rights.installing(kind.name))]
    if kind != PLAIN:
        needs.append(("operators", operators.operator_of(kind, versions)))
    if _is_refused(kind, versions, survey.own):
        words = f"{served}; namespace {survey.namespace} refuses {INIT_CONTAINERS}"
        return Finding("jobs", kind.name, MISSING, words, "use a namespace that enforces baseline", details=details)
    for state in (MISSING, UNKNOWN):
        causes = [f'"{name}"' for section, name in needs if states[section, name] == state]
        if causes:
            return Finding("jobs", kind.name, state, served, f"see {listed(causes)} above", details=details)
    if len(versions) > 1 and kind.runs_one_version:
        words = f"{served} under one CRD, and the operator runs only one of them"
        step = "set job.apiVersion to the version that the operator's image runs"
        return Finding("jobs", kind.name, UNKNOWN, words, step, details=details)
    return Finding("jobs", kind.name, OK, served, details=details)


def _is_refused(kind: Kind, versions: Sequence[str], own: kube.Named | Unread | None) -> bool:
    """Tell whether Pod Security Admission refuses all jobs of this kind because of the operator's init container."""
    if not isinstance(own, kube.Named) or _level(own) != "restricted":
        return False
    added = [version.init_container for version in kind.versions if version.name in versions]
    return bool(added) and all(each and not each.beside for each in added)
