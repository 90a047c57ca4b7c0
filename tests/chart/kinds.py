"""List every form of a job that the chart can write. For each form, list the values that select it."""

from __future__ import annotations

import pytest

PARAMETER_SERVER = "strategy=parameter-server"

KINDS: dict[str, tuple[str, ...]] = {
    "mpijob-v2beta1": (),
    "mpijob-v1": ("job.apiVersion=v1",),
    "mpijob-v1alpha2": ("job.apiVersion=v1alpha2",),
    "pytorchjob-elastic": ("framework=pytorch",),
    "pytorchjob-master": ("framework=pytorch", "job.elastic=false"),
    "mxjob-v1": ("framework=mxnet", PARAMETER_SERVER),
    "mxjob-v1beta1": ("framework=mxnet", PARAMETER_SERVER, "job.apiVersion=v1beta1"),
    "tfjob": (PARAMETER_SERVER,),
    "plain": ("job.kind=Plain",),
}
MPI = ("mpijob-v2beta1", "mpijob-v1", "mpijob-v1alpha2", "plain")
TRAINING_OPERATOR = ("mpijob-v1", "pytorchjob-elastic", "pytorchjob-master", "mxjob-v1", "tfjob")
REPLACED = ("pytorchjob-master", "mxjob-v1", "mxjob-v1beta1", "tfjob")
# The roles whose pods train the model.
TRAINS = ("Worker", "Master")
# A sidecar and an init container in the workers' pods.
SIDE = (
    "workers.sidecars[0].name=side",
    "workers.sidecars[0].image=side",
    "workers.podSpec.initContainers[0].name=init",
    "workers.podSpec.initContainers[0].image=init",
)

every_kind = pytest.mark.parametrize("kind", KINDS)
