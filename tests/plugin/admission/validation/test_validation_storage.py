"""Test volumes, claims and mounts that the API server refuses, each with one mistake."""

from __future__ import annotations

import pytest

from tests.plugin.admission.refusing import CLAIM, POD, ROOM, assert_refused, changed, mounted, valid_job, valid_set
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object

VOLUMES = [
    pytest.param([{"name": "a"}, {"name": "a"}], 'volumes[1].name: Duplicate value: "a"', id="name-twice"),
    pytest.param([{"emptyDir": {}}], "volumes[0].name: Required value", id="no-name"),
    pytest.param([{"name": "a_b"}], 'volumes[0].name: Invalid value: "a_b"', id="name"),
    pytest.param(
        [{"name": "a", "persistentVolumeClaim": {}}],
        "volumes[0].persistentVolumeClaim.claimName: Required value",
        id="no-claim",
    ),
    pytest.param(
        [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}],
        "volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        id="two-types",
    ),
]
CLAIMS = [
    pytest.param({}, "spec.accessModes: Required value: at least 1 access mode is required", id="empty"),
    pytest.param({**CLAIM, "accessModes": ["RWO"]}, 'accessModes: Unsupported value: "RWO": supported', id="mode"),
    pytest.param(
        {**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
        "accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        id="modes",
    ),
    pytest.param({**CLAIM, "resources": {}}, "spec.resources[storage]: Required value", id="no-storage"),
    pytest.param(
        {**CLAIM, "resources": {"requests": {"storage": "-1Gi"}}},
        'spec.resources[storage]: Invalid value: "-1Gi": must be greater than zero',
        id="negative-storage",
    ),
    pytest.param({**CLAIM, "volumeMode": "block"}, 'volumeMode: Unsupported value: "block"', id="volume-mode"),
]
MOUNTS = [
    pytest.param([{"name": "x", "mountPath": "/x"}], 'volumeMounts[0].name: Not found: "x"', id="no-volume"),
    pytest.param([{"mountPath": "/x"}], "volumeMounts[0].name: Required value", id="no-name"),
    pytest.param([{"name": "data"}], "volumeMounts[0].mountPath: Required value", id="no-path"),
    pytest.param(
        [{"name": "data", "mountPath": "/x"}, {"name": "data", "mountPath": "/x"}],
        'volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
        id="path-twice",
    ),
]


@pytest.mark.parametrize(("volumes", "words"), VOLUMES)
def test_volumes_that_the_api_server_refuses_are_impossible(volumes: list[Object], words: str) -> None:
    assert_refused(changed(valid_job(), (*POD, "volumes"), volumes), words)


@pytest.mark.parametrize(("claim", "words"), CLAIMS)
def test_claims_that_the_api_server_refuses_are_impossible(claim: Object, words: str) -> None:
    own = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]

    assert_refused(changed(valid_job(), (*POD, "volumes"), [own]), words)
    assert_refused(changed(valid_set(), ("spec", "volumeClaimTemplates"), templates), words)


@pytest.mark.parametrize(("claim", "words"), CLAIMS)
def test_claim_of_the_manifest_that_the_api_server_refuses_is_impossible(claim: Object, words: str) -> None:
    metadata = {"name": "data"}
    item = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
    answer = judged(job_of(valid_job(), item), ROOM)

    assert answer.verdict == "impossible"
    assert any(words in each.reason for each in answer.reasons)
    assert answer.next.startswith(
        "PersistentVolumeClaim data: the API server does not accept this PersistentVolumeClaim"
    )


@pytest.mark.parametrize(("mounts", "words"), MOUNTS)
def test_mounts_that_the_api_server_refuses_are_impossible(mounts: list[Object], words: str) -> None:
    assert_refused(changed(valid_job(), POD, mounted(*mounts)), words)
