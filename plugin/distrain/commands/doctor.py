"""Run the command `doctor`: print the findings as lines of text or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from itertools import groupby

import semver

from distrain import console
from distrain.answers.formats import dumped
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import namespace_alone
from distrain.doctor import operators, survey
from distrain.doctor.diagnosis import Diagnosis, Run, diagnose, needed_rights
from distrain.doctor.findings import OK, Finding
from distrain.doctor.survey import Unread
from distrain.errors import HelmError, UnreachableError, ValuesError
from distrain.helm import render
from distrain.kube.resource import Resource
from distrain.release import orphans
from distrain.release.orphans import Orphan
from distrain.request.request import NAMELESS, Request
from distrain.workload.manifest import from_manifest
from distrain.workload.wording import listed
from distrain.yaml import yaml_writer

# What a user cannot do, by the section of the first obstacle.
OBSTACLES = {"values": "the job of these values cannot run", "rights": "you may not install a job"}


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    described = _described(request) if options.value_flags else None
    cluster = request.cluster
    found = survey.take(cluster, cluster.target.namespace, operators.GROUPS, needed_rights)
    diagnosis = diagnose(found, _helm(), _orphans(cluster), described)
    form = options.output
    console.answer("\n".join(_lines(diagnosis)) if form == "text" else dumped(diagnosis.as_dict(), form))
    return diagnosis.exit_code


def _described(request: Request) -> Run | Unread:
    """Return the run that the values describe.

    The run is rendered without the cluster, because the cluster may lack the operator.
    """
    values = request.helm.merged_values(request.source)
    namespace = namespace_alone(request.options.namespace)
    template = render.Template(NAMELESS, namespace, None, has_valid_values=True, has_test=False)
    try:
        return Run(values, request.helm.render(request.source, template).job())
    except ValuesError as error:
        return Unread(str(error))


def _helm() -> semver.Version | str:
    try:
        return render.version()
    except HelmError as error:
        return str(error)


def _orphans(cluster: Cluster) -> list[Orphan] | Unread:
    """Return the jobs and pods without a release.

    Helm is asked only about the releases that are named in the labels of jobs and pods.
    """

    @cache
    def named(release: str) -> list[Resource]:
        revision = render.find().releases.revision(release, cluster.target)
        try:
            return [*from_manifest(revision.manifest, release).resources] if revision else []
        except ValuesError:
            # The release's last revision contains no job.
            return []

    try:
        return list(orphans.of_all(cluster, cluster.target.namespace, named))
    except (UnreachableError, HelmError) as error:
        return Unread(str(error))


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the verdict, then each section, then YAML that grants the missing rights to the user."""
    yield _verdict(diagnosis)
    for section, findings in groupby(diagnosis.findings, lambda finding: finding.section):
        yield from ("", section)
        yield from (f"  {finding.state:<8} {_told(finding)}" for finding in findings)
    if diagnosis.grants:
        yield from ("", "# An admin grants these rights, if you should have them, with `kubectl apply -f -` and this:")
        yield yaml_writer.dump(*diagnosis.grants, default_flow_style=None, width=120).rstrip()


def _told(finding: Finding) -> str:
    return f"{finding.name}: {finding.found}" + (f"; {finding.next}" if finding.next else "")


def _verdict(diagnosis: Diagnosis) -> str:
    where = f"in namespace {diagnosis.namespace}"
    if diagnosis.obstacles:
        first = diagnosis.obstacles[0]
        what = OBSTACLES.get(first.section, "no job can run")
        return f"not ready: {what} {where}: {_told(first)}"
    if not diagnosis.is_ready:
        return f"not ready: you can run no kind of job {where}; the reasons are under jobs"
    sure = [job.name for job in diagnosis.jobs if job.state == OK]
    perhaps = [job.name for job in diagnosis.jobs if job.state != OK]
    if not sure:
        return f"ready, as far as can be read: {listed(perhaps)} may run {where}"
    return f"ready: {listed(sure)} can run {where}" + (f", and perhaps {listed(perhaps)}" if perhaps else "")
