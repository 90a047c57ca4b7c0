"""Test volumes that an administrator reserves for a claim with the volume's claimRef."""

from __future__ import annotations

import pytest

from distrain.scheduler.messages import NO_VOLUME
from tests.plugin.check.judging import examined, job_of, judged
from tests.plugin.check.volumes.test_own_claims import NODES, _class, _set, _volume
from tests.plugin.check.volumes.test_volume_claims import _claim, _using
from tests.plugin.objects import Object, batch_job, template

LOCAL = _class("late", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")


def _reserved(name: str, zone: str, claim: str, *, namespace: str = "team", uid: str = "", **spec: object) -> Object:
    volume = _volume(name, zone, "late")
    volume["spec"] |= {"claimRef": {"namespace": namespace, "name": claim, **({"uid": uid} if uid else {})}, **spec}
    return volume


def _refusals(*others: Object) -> list[str | None]:
    claim = _claim(storageClassName="late")
    claim["metadata"]["uid"] = "1"
    job = job_of(batch_job("web", template("web", {}, _using("data"))))
    _, state = examined(job, NODES, [], [LOCAL, claim, *others])
    return [state.refusal(each, job.main) for each in state.nodes]


@pytest.mark.parametrize(
    ("volume", "is_taken"),
    [
        pytest.param({"claim": "data"}, True, id="this-claim"),
        pytest.param({"claim": "data", "uid": "1"}, True, id="uid-of-this-claim"),
        pytest.param({"claim": "data", "uid": "2"}, False, id="uid-of-a-claim-that-is-gone"),
        pytest.param({"claim": "other"}, False, id="another-claim"),
        pytest.param({"claim": "data", "namespace": "other"}, False, id="another-namespace"),
        pytest.param({"claim": "data", "volumeMode": "Block"}, False, id="another-mode"),
        pytest.param({"claim": "data", "accessModes": ["ReadOnlyMany"]}, True, id="access-modes-do-not-count"),
    ],
)
def test_reserved_volume_is_for_its_claim(volume: Object, is_taken: bool) -> None:
    assert _refusals(_reserved("v", "1", **volume)) == [None if is_taken else NO_VOLUME, NO_VOLUME]


def test_claim_takes_no_other_volume_than_the_reserved_one() -> None:
    assert _refusals(_reserved("v", "1", "data"), _volume("free", "2", "late")) == [None, NO_VOLUME]


def test_only_claim_of_a_stateful_set_takes_the_volume_that_is_reserved_for_it() -> None:
    job = job_of(_set(1, {"storageClassName": "late"}))

    _, state = examined(job, NODES, [], [LOCAL, _reserved("v", "2", "scratch-web-0")])

    assert [state.refusal(each, job.main) for each in state.nodes] == [NO_VOLUME, None]


@pytest.mark.parametrize(("zone", "verdict"), [("2", "depends"), ("3", "impossible")])
def test_claims_of_a_stateful_set_take_the_volumes_that_are_reserved_for_them(zone: str, verdict: str) -> None:
    volumes = [_reserved("v0", "1", "scratch-web-0"), _reserved("v1", zone, "scratch-web-1")]

    answer = judged(job_of(_set(2, {"storageClassName": "late"})), NODES, others=[LOCAL, *volumes])

    assert answer.verdict == verdict


def test_claims_of_two_namespaces_compete_for_a_volume() -> None:
    sets = [_set(1, {"storageClassName": "late"}) for _ in range(2)]
    sets[1]["metadata"] |= {"namespace": "blue", "name": "other"}
    namespace = {"kind": "Namespace", "metadata": {"name": "blue"}}

    answer = judged(job_of(*sets), [*NODES, *NODES], others=[LOCAL, namespace, _volume("v", "1", "late")])

    assert (answer.verdict, answer.undecided) == ("depends", True)


def test_claim_of_the_manifest_takes_the_volume_that_is_reserved_for_it() -> None:
    claim = _claim(storageClassName="late")
    claim["apiVersion"] = "v1"
    job = job_of(claim, batch_job("web", template("web", {}, _using("data"))))

    _, state = examined(job, NODES, [], [LOCAL, _claim("other"), _reserved("v", "2", "data")])

    assert [state.refusal(each, job.main) for each in state.nodes] == [NO_VOLUME, None]


def test_volume_that_is_reserved_for_a_claim_to_come_is_bound_at_once() -> None:
    class_now = _class("now", provisioner="kubernetes.io/no-provisioner")
    job = job_of(_set(1, {"storageClassName": "now"}))

    answer = judged(job, NODES, others=[class_now, _reserved("v", "3", "scratch-web-0")])

    assert answer.verdict == "impossible"


def test_claim_with_a_chosen_node_waits_for_that_node() -> None:
    claim = _claim(storageClassName="late")
    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = "b"
    job = job_of(batch_job("web", template("web", {}, _using("data"))))
    made = _class("late", provisioner="disk", volumeBindingMode="WaitForFirstConsumer")

    _, state = examined(job, NODES, [], [made, claim, _volume("v", "1", "late")])

    assert [state.refusal(each, job.main) for each in state.nodes] == [NO_VOLUME, None]
