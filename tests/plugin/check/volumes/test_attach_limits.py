"""Test how many CSI volumes the nodes can still attach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.explain import why
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.scheduler.messages import TOO_MANY_VOLUMES
from distrain.scheduler.node_volume_limits import Attached, AttachLimits, VolumeNeeds
from tests.plugin.check.judging import examined, job_of, judged
from tests.plugin.check.volumes.test_own_claims import ONE_GIB
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, batch_job, namespace, node, pod, template

NODES = [node("a"), node("b")]
TEAM = "/api/v1/namespaces/team"
STORAGE = "/apis/storage.k8s.io/v1"
CLASS = {"metadata": {"name": "disk"}, "provisioner": "csi.disk", "volumeBindingMode": "WaitForFirstConsumer"}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {**ONE_GIB, "storageClassName": "disk"}}}}
SHARED = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def _job(pods: int, *volumes: Object) -> Object:
    job = template("web", {"requests": {"cpu": "1"}}, {"volumes": list(volumes)})
    return batch_job("web", job, parallelism=pods)


def _limit(name: str, count: int) -> Object:
    driver = {"name": "csi.disk", "nodeID": name, "allocatable": {"count": count}}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def _claim(name: str, number: int = 1) -> list[Object]:
    """Return a bound claim and its volume."""
    metadata = {"name": name, "namespace": "team", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": f"v{number}"}}
    source = {"csi": {"driver": "csi.disk", "volumeHandle": f"handle-{number}"}}
    return [claim, {"kind": "PersistentVolume", "metadata": {"name": f"v{number}"}, "spec": source}]


def _attachment(on: str, volume: str) -> Object:
    spec = {"attacher": "csi.disk", "nodeName": on, "source": {"persistentVolumeName": volume}}
    return {"kind": "VolumeAttachment", "metadata": {"name": f"{on}-{volume}"}, "spec": spec}


def _user(on: str, *volumes: Object) -> Object:
    user = pod("user", on=on)
    user["spec"]["volumes"] = list(volumes)
    return user


def _answer(
    job: Object,
    *others: Object,
    limit: int = 1,
    running: list[Object] | None = None,
    nodes: list[Object] = NODES,
) -> Report:
    objects = [{**CLASS, "kind": "StorageClass"}, *(_limit(name, limit) for name in "ab"), *others]
    return judged(job_of(job), nodes, running or [], objects)


def test_each_pod_needs_room_for_volumes_of_its_own() -> None:
    assert _answer(_job(2, SCRATCH)).verdict == "fits"

    answer = _answer(_job(3, SCRATCH))

    assert (answer.verdict, [(each.nodes, each.reason) for each in answer.reasons]) == (
        "impossible",
        [(2, TOO_MANY_VOLUMES)],
    )


@pytest.mark.parametrize(("left", "verdict"), [(True, "fits"), (False, "impossible")])
def test_claim_that_is_left_needs_no_new_volume_of_its_class(left: bool, verdict: str) -> None:
    """If the claim already exists, its volume belongs to another driver, which has no limit.

    A new volume would belong to the driver of the storage class, which cannot attach any volume.
    """
    spec = {**ONE_GIB, "storageClassName": "disk"}
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    pods = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "i"}]}}
    wanted = {"selector": {"matchLabels": {"app": "web"}}, "template": pods, "volumeClaimTemplates": claims}
    web = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": wanted}
    claim, volume = _claim("data-web-0")
    claim["spec"]["storageClassName"] = "disk"
    volume["spec"]["csi"]["driver"] = "csi.other"

    assert _answer(web, volume, *([claim] if left else []), limit=0).verdict == verdict


def test_role_without_pods_needs_no_volume() -> None:
    data = frozenset({("csi.disk", "data")})
    needs = {"worker": VolumeNeeds(4, own={"csi.disk": 1}), "server": VolumeNeeds(0, shared=data)}

    assert [*AttachLimits({"csi.disk": {"a": 4}}, needs).contested("a", Attached())] == []


def test_driver_without_a_limit_attaches_any_number() -> None:
    drivers = [{"name": "csi.disk", "nodeID": "a"}]
    unlimited = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}}

    assert judged(job_of(_job(9, SCRATCH)), NODES, [], [{**CLASS, "kind": "StorageClass"}, unlimited]).verdict == "fits"


def test_node_without_a_limit_attaches_any_number_beside_one_with_a_limit() -> None:
    many = [{**SCRATCH, "name": f"scratch-{number}"} for number in range(500)]

    answer = judged(job_of(_job(1, *many)), NODES, [], [{**CLASS, "kind": "StorageClass"}, _limit("a", 499)])

    assert answer.verdict == "fits"


def test_node_that_attaches_nothing_is_named_as_the_cause() -> None:
    answer = _answer(_job(1, SCRATCH), limit=0)

    assert answer.next == (
        "web: 2 nodes would do, but for the number of volumes that they can attach. "
        "Use fewer volumes per pod, or add nodes."
    )


def test_volume_that_pods_share_counts_once_on_a_node() -> None:
    assert _answer(_job(9, SHARED), *_claim("data")).verdict == "fits"


@pytest.mark.parametrize(("pods", "verdict"), [(2, "fits"), (3, "impossible")])
def test_shared_volume_takes_room_from_each_pods_own(pods: int, verdict: str) -> None:
    # Each of the two nodes can attach only two volumes. So on each node, there is room for the shared volume and for
    # one pod's own volume.
    assert _answer(_job(pods, SCRATCH, SHARED), *_claim("data"), limit=2).verdict == verdict


@pytest.mark.parametrize(
    ("running", "others", "verdict"),
    [
        pytest.param([_user("a", SHARED)], _claim("data"), "busy", id="claim"),
        pytest.param([_user("a", SCRATCH)], _claim("user-scratch"), "busy", id="ephemeral-volume"),
        pytest.param([], [*_claim("gone"), _attachment("a", "v1")], "busy", id="still-attached"),
        pytest.param([_user("a", SHARED)], [*_claim("data"), _attachment("a", "v1")], "busy", id="counted-once"),
        pytest.param([_user("a")], [], "fits", id="nothing"),
    ],
)
def test_volumes_that_are_attached_take_room(running: list[Object], others: list[Object], verdict: str) -> None:
    answer = _answer(_job(2, SCRATCH), *others, running=running)

    assert answer.verdict == verdict


def test_volumes_of_the_release_count_as_free() -> None:
    own = _user("a", SCRATCH)
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    objects = [{**CLASS, "kind": "StorageClass"}, *_claim("user-scratch"), _attachment("a", "v1"), _limit("a", 1)]

    verdicts = [
        judged(job_of(_job(1, SCRATCH)), NODES[:1], [own], objects, release).verdict for release in ("run1", "run2")
    ]

    assert verdicts == ["fits", "busy"]


def test_volume_that_a_node_has_attached_needs_no_more_room() -> None:
    full = _answer(_job(1, SHARED), *_claim("data"), *_claim("other", 2), running=[_user("a", SHARED)])

    assert full.verdict == "fits"


def test_volume_of_a_pod_that_waits_for_a_node_is_not_attached_there_yet() -> None:
    # The scheduler must first evict the running pod for the waiting pod. Until then, the node cannot attach another
    # volume. The job uses the same volume as the waiting pod.
    waiting = _user("", SHARED)
    waiting["metadata"]["name"], waiting["status"] = "waiting", {"phase": "Pending", "nominatedNodeName": "a"}
    others = [*_claim("data"), *_claim("user-scratch", 2)]

    answer = _answer(_job(1, SHARED), *others, running=[_user("a", SCRATCH), waiting], nodes=NODES[:1])

    assert (answer.verdict, answer.undecided) == ("depends", True)


def test_explanation_of_a_node_has_its_free_volumes() -> None:
    job, objects = job_of(_job(1, SCRATCH)), [{**CLASS, "kind": "StorageClass"}, _limit("a", 0)]

    _, state = examined(job, NODES, [], objects)

    assert [line for line in why("a", job, state) if "volume" in line] == [
        "  attachable volumes of csi.disk asks 1, free 0  <- short",
        f"  refused: {TOO_MANY_VOLUMES}",
    ]
    assert not [line for line in why("b", job, state) if "volume" in line]


def test_roles_that_compete_for_room_are_undecided() -> None:
    one, other = _job(1, SHARED), {**_job(1, SCRATCH), "metadata": {"name": "other"}}
    objects = [{**CLASS, "kind": "StorageClass"}, *_claim("data"), _limit("a", 1)]

    answer = judged(job_of(one, other), NODES, others=objects)

    assert (answer.verdict, answer.undecided) == ("depends", True)
    assert answer.next.startswith(
        "undecided how many pods a node takes before it can attach no more volumes of csi.disk"
    )


@pytest.fixture
def cluster(api: FakeApi) -> FakeApi:
    api.answers |= {"/api/v1/nodes": NODES, "/api/v1/pods": [], TEAM: namespace("team")}
    api.answers |= {f"{TEAM}/{kind}": [] for kind in ("resourcequotas", "limitranges")}
    api.answers |= {"/api/v1/persistentvolumes": [], f"{STORAGE}/storageclasses": [CLASS], f"{STORAGE}/csidrivers": []}
    return api


def _check(api: FakeApi, folder: Path, job: Object) -> Report:
    return check(connect(Target(str(api.kubeconfig(folder)), "fake", "team")), job_of(job), "team")


def test_limits_of_the_cluster_are_judged(cluster: FakeApi, tmp_path: Path) -> None:
    cluster.answers[f"{STORAGE}/csinodes"] = [_limit("a", 1), _limit("b", 1)]
    claim, volume = _claim("user-scratch")
    cluster.answers |= {f"{STORAGE}/volumeattachments": [], "/api/v1/persistentvolumes": [volume]}
    cluster.answers |= {"/api/v1/persistentvolumeclaims": [claim], "/api/v1/pods": [_user("a", SCRATCH)]}

    answer = _check(cluster, tmp_path, _job(2, SCRATCH))

    assert (answer.verdict, answer.unseen) == ("busy", [])


def test_claims_of_other_pods_are_read_only_where_a_node_has_a_limit(cluster: FakeApi, tmp_path: Path) -> None:
    cluster.answers[f"{STORAGE}/csinodes"] = []

    assert _check(cluster, tmp_path, _job(2, SCRATCH)).verdict == "fits"
    assert not any("persistentvolumeclaims" in request or "attachments" in request for request in cluster.requests)


@pytest.mark.parametrize(
    ("answers", "unseen"),
    [
        pytest.param({"csinodes": 403}, ["how many volumes the nodes can attach (CSINodes)"], id="limits"),
        pytest.param(
            {"csinodes": [_limit("a", 1)], "volumeattachments": 403},
            [
                "the volumes that other pods use (PersistentVolumeClaims of all namespaces)",
                "the volumes that stay attached after their pods (VolumeAttachments)",
            ],
            id="volumes",
        ),
    ],
)
def test_limits_that_may_not_be_read_are_named(
    cluster: FakeApi, tmp_path: Path, answers: dict[str, Any], unseen: list[str]
) -> None:
    cluster.answers |= {f"{STORAGE}/{plural}": answer for plural, answer in answers.items()}
    cluster.answers["/api/v1/persistentvolumeclaims"] = 403

    answer = _check(cluster, tmp_path, _job(1, SCRATCH))

    assert (answer.verdict, answer.unseen) == ("fits", unseen)
