"""Test that `doctor` lists the jobs in the namespace that belong to no release."""

from __future__ import annotations

import yaml

from tests.plugin.doctor.examining import Doctor
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import Object, mpi_job
from tests.plugin.program import SECRETS

JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"


def _made(name: str) -> Object:
    job = mpi_job(workers=1)
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    job["metadata"] = {"name": name, "labels": labels, "annotations": {"meta.helm.sh/release-name": "run1"}}
    return job


def test_job_that_no_release_names_is_left(cluster: FakeApi, examine: Doctor) -> None:
    known, left = _made("run1"), _made("run1-old")
    secret = release_secret("run1", "failed", version=2, manifest=yaml.safe_dump(known))
    cluster.answers |= {
        JOBS: [known, left],
        SECRETS: releases(secret),
        f"{SECRETS}/{secret['metadata']['name']}": secret,
    }

    found = examine()["run1"]

    assert (found["section"], found["state"]) == ("releases", "left")
    assert found["found"] == "MPIJob run1-old runs, and Helm no longer knows it: `helm uninstall` leaves it there"
    assert found["next"] == "`kubectl --namespace team delete mpijobs.kubeflow.org run1-old` ends it"


def test_job_of_a_release_that_is_gone_is_left(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers |= {JOBS: [_made("run1")], SECRETS: releases()}

    assert examine()["run1"]["found"].startswith("MPIJob run1 runs, and Helm no longer knows it")


def test_releases_that_may_not_be_read_are_unknown(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers |= {JOBS: [_made("run1")], SECRETS: 403}

    found = examine()["orphans"]

    assert found["state"] == "unknown"
    assert "helm get run1" in found["found"]
