"""Test claims, volumes and storage classes that the job's own manifest creates, in the job's or another namespace."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.check.report import Report
from distrain.errors import ValuesError
from distrain.scheduler.messages import IN_USE, NODE_CONFLICT, TOO_MANY_VOLUMES
from tests.plugin.check.judging import job_of, judged
from tests.plugin.check.volumes.test_own_claims import NODES, ONE_GIB, WAITS, _class, _in_zones, _set, _volume
from tests.plugin.check.volumes.test_volume_claims import _claim, _using
from tests.plugin.objects import Object, batch_job, pod, template

OTHERS = [
    {"kind": "Namespace", "metadata": {"name": "blue", "labels": {}}},
    {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "blue"}},
    _claim("elsewhere"),
    _class("spare", **WAITS),
    _volume("spare", "1", "spare"),
]
ANYWHERE = {"kind": "PersistentVolume", "metadata": {"name": "v"}}


def _job(*, namespace: str = "", pods: int = 1, **spec: Any) -> Object:
    job = batch_job("web", template("web", {"requests": {"cpu": "1"}}, spec), parallelism=pods)
    job["metadata"] |= {"namespace": namespace} if namespace else {}
    return job


def _made(item: Object, namespace: str = "", **spec: Any) -> Object:
    """Return the object as a manifest contains it, with the field `namespace` only if `namespace` is given."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "namespace"}
    where = {"namespace": namespace} if namespace else {}
    made = {"apiVersion": "v1", **item, "metadata": {**metadata, **where}, **spec}
    return {**made, "spec": _completed(made["spec"])} if item["kind"] == "PersistentVolumeClaim" else made


def _completed(claim: Object) -> Object:
    """Return the spec of a claim, and add the fields that the API server requires."""
    return {**ONE_GIB, **{key: value for key, value in claim.items() if value != []}}


def _answer(*documents: Object, others: list[Object] | None = None) -> Report:
    return judged(job_of(*documents), NODES, others=[*OTHERS, *(others or [])])


@pytest.mark.parametrize(
    ("made", "used", "verdict"),
    [
        pytest.param("", "", "fits", id="in-the-namespace-of-the-job"),
        pytest.param("blue", "blue", "fits", id="in-the-same-namespace"),
        pytest.param("team", "", "fits", id="in-the-namespace-of-the-job-by-name"),
        pytest.param("blue", "", "impossible", id="in-another-namespace"),
        pytest.param("", "blue", "impossible", id="only-in-the-namespace-of-the-job"),
    ],
)
def test_objects_of_the_manifest_are_for_pods_of_their_namespace(made: str, used: str, verdict: str) -> None:
    account = _made({"kind": "ServiceAccount", "metadata": {"name": "trainer"}}, made)
    claim = _made(_claim(storageClassName="spare"), made)

    by_account = _answer(account, _job(namespace=used, serviceAccountName="trainer"))
    by_claim = _answer(claim, _job(namespace=used, **_using("data")), others=[_claim("other")])

    assert by_account.verdict == verdict
    # The snapshot contains another claim, so it counts as complete: a claim that is not in it does not exist.
    assert by_claim.verdict == verdict


def test_storage_class_of_the_manifest_is_there() -> None:
    made = {"apiVersion": "storage.k8s.io/v1", **_class("late", **WAITS, **_in_zones("2"))}

    answer = _answer(made, _set(1, {"storageClassName": "late"}))
    two = _answer(made, _set(2, {"storageClassName": "late"}))

    assert answer.verdict == "fits"
    assert not any("StorageClass" in each for each in answer.unseen)
    assert two.verdict == "impossible"


def test_volume_of_the_manifest_is_there() -> None:
    local = _class("late", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")

    answer = _answer(_made(_volume("v", "2", "late")), _set(1, {"storageClassName": "late"}), others=[local])

    assert answer.verdict == "fits"


@pytest.mark.parametrize(
    ("volume", "verdict"),
    [pytest.param("1", "fits", id="here"), pytest.param("3", "impossible", id="where-no-node-is")],
)
def test_claim_of_the_manifest_that_names_its_volume_is_where_the_volume_is(volume: str, verdict: str) -> None:
    claim = _made(_claim(), spec={"volumeName": "v", "storageClassName": ""})

    answer = _answer(claim, _made(_volume("v", volume)), _job(**_using("data")))

    assert answer.verdict == verdict
    assert [each.reason for each in answer.reasons] == ([] if verdict == "fits" else [NODE_CONFLICT])


def test_claim_of_the_manifest_for_one_pod_cannot_be_shared_by_two() -> None:
    claim = _made(_claim(modes=("ReadWriteOncePod",), storageClassName="spare"))

    answer = _answer(claim, _job(pods=2, **_using("data")))

    assert (answer.verdict, answer.reasons[0].reason) == ("impossible", IN_USE)


def test_claim_of_a_class_that_nobody_makes_is_refused() -> None:
    answer = _answer(_made(_claim(storageClassName="gone")), _job(**_using("data")))

    assert answer.verdict == "impossible"
    assert answer.next == (
        "web: persistent volume claim data asks for storage class gone, which is not there. "
        "Create the class, or name another."
    )


def test_claim_of_the_manifest_that_a_limit_range_refuses_is_named() -> None:
    largest = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    limits = {"kind": "LimitRange", "metadata": {"name": "sizes", "namespace": "team"}, "spec": {"limits": [largest]}}
    claim = _made(_claim(storageClassName="spare", resources={"requests": {"storage": "2Gi"}}))

    answer = _answer(claim, _job(**_using("data")), others=[limits])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "persistent volume claim data: LimitRange sizes refuses the claim: maximum storage usage per "
        "PersistentVolumeClaim is 1Gi, but request is 2Gi. Change what it asks for, or the LimitRange."
    )


def test_claim_of_the_manifest_needs_a_node_that_can_attach_its_volume() -> None:
    claim = _made(_claim(storageClassName="spare"))
    full = {"drivers": [{"name": "disk", "allocatable": {"count": 0}}]}
    limits = [{"kind": "CSINode", "metadata": {"name": each["metadata"]["name"]}, "spec": full} for each in NODES]

    answer = _answer(claim, _job(**_using("data")), others=limits)

    assert (answer.verdict, answer.reasons[0].reason) == ("impossible", TOO_MANY_VOLUMES)


def test_claim_that_exists_stays_as_it_is() -> None:
    claim = _made(_claim(storageClassName="spare"))
    there = [_claim(bound_to="v"), _volume("v", "3")]

    assert _answer(claim, _job(**_using("data")), others=there).verdict == "impossible"


def test_claim_of_one_pod_is_in_use_in_the_second_namespace_of_the_manifest() -> None:
    user = pod("p", on="b")
    user["metadata"]["namespace"] = "blue"
    user["spec"].update(_using("data"))
    exclusive = _claim(bound_to="v", modes=("ReadWriteOncePod",))
    exclusive["metadata"]["namespace"] = "blue"
    others = [*OTHERS, exclusive, ANYWHERE]
    second = _job(namespace="blue", **_using("data"))
    second["metadata"]["name"] = "other"
    job = job_of(_job(pods=3), second)

    assert judged(job, NODES, [user], others).verdict == "busy"
    assert judged(job, NODES, [], others).verdict == "fits"


def test_claim_of_the_same_name_in_another_namespace_is_not_in_use() -> None:
    user = pod("p", on="b")
    user["metadata"]["namespace"] = "blue"
    user["spec"].update(_using("data"))
    exclusive = _claim(bound_to="v", modes=("ReadWriteOncePod",))

    assert judged(job_of(_job(**_using("data"))), NODES, [user], [*OTHERS, exclusive, ANYWHERE]).verdict == "fits"


def test_amount_of_a_claim_that_is_no_quantity_is_refused_by_name() -> None:
    claim = _made(_claim(resources={"requests": {"storage": "10GB"}}))

    with pytest.raises(ValuesError, match="PersistentVolumeClaim data: 10GB is no quantity"):
        job_of(claim, _job())
    with pytest.raises(ValuesError, match="web: volumeClaimTemplates: scratch: 10GB is no quantity"):
        job_of(_set(1, claim["spec"]))
