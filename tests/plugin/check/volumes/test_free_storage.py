"""Test the storage that CSI drivers report as free."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.scheduler.messages import NO_SPACE
from tests.plugin.check.judging import examined, job_of, judged
from tests.plugin.check.volumes.test_own_claims import NODES, WAITS, ZONE, _class, _set
from tests.plugin.objects import Object

FIVE = {"storageClassName": "late", "resources": {"requests": {"storage": "5Gi"}}}
DRIVER = {"kind": "CSIDriver", "metadata": {"name": "disk"}, "spec": {"storageCapacity": True}}
SUM = "whether CSI driver disk has storage for all volumes together: Kubernetes checks them one by one"


def _room(zone: str, **amounts: Any) -> Object:
    topology = {"nodeTopology": {"matchLabels": {ZONE: zone}}}
    metadata = {"name": f"of-{zone}", "namespace": "disk-system"}
    return {"kind": "CSIStorageCapacity", "metadata": metadata, "storageClassName": "late", **topology, **amounts}


@pytest.mark.parametrize(
    ("rooms", "refusals"),
    [
        pytest.param([_room("1", capacity="4Gi"), _room("2", capacity="5Gi")], [NO_SPACE, None], id="free"),
        pytest.param([_room("1", capacity="9Gi", maximumVolumeSize="4Gi")], [NO_SPACE, NO_SPACE], id="largest-volume"),
        pytest.param([_room("1")], [NO_SPACE, NO_SPACE], id="unknown"),
        pytest.param(
            [{**_room("1", capacity="9Gi"), "storageClassName": "other"}], [NO_SPACE, NO_SPACE], id="other-class"
        ),
        pytest.param(
            [{**_room("1", capacity="9Gi"), "nodeTopology": None}], [NO_SPACE, NO_SPACE], id="reached-from-nowhere"
        ),
        pytest.param([{**_room("1", capacity="9Gi"), "nodeTopology": {}}], [None, None], id="everywhere"),
    ],
)
def test_new_volume_goes_where_its_driver_has_room(rooms: list[Object], refusals: list[str | None]) -> None:
    job = job_of(_set(1, FIVE))

    prepared, state = examined(job, NODES, [], [_class("late", **WAITS), DRIVER, *rooms])

    assert [state.refusal(each, job.main) for each in state.nodes] == refusals
    assert SUM in prepared.unseen


@pytest.mark.parametrize("spec", [{}, {"storageCapacity": False}])
def test_driver_that_does_not_report_is_not_asked(spec: Object) -> None:
    answer = judged(job_of(_set(1, FIVE)), NODES, others=[_class("late", **WAITS), {**DRIVER, "spec": spec}])

    assert (answer.verdict, [each for each in answer.unseen if "storage" in each]) == ("fits", [])


def test_storage_that_is_not_in_the_file_is_named() -> None:
    answer = judged(job_of(_set(1, FIVE)), NODES, others=[_class("late", **WAITS), DRIVER])

    assert "the storage that CSI driver disk has left (CSIStorageCapacities)" in answer.unseen
