"""Test in the rendered pods the values that every role accepts, and their defaults at the top level of the values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import render
from tests.chart.templates.pods.role_pods import ROLES, first, others, rendered, with_role

every_role = pytest.mark.parametrize("role", ROLES)


# SPEC maps values of a role to a function that checks them in the spec of the role's pods.
SPEC = {
    "resources: {limits: {cpu: 2, ephemeral-storage: 5Gi}}": lambda spec: (
        first(spec)["resources"]["limits"].get("cpu") == "2"
        and first(spec)["resources"]["limits"]["ephemeral-storage"] == "5Gi"
    ),
    "resources: {limits: {cpu: 1, hugepages-2Mi: 1Gi, rdma/hca: 2}}": lambda spec: (
        first(spec)["resources"].get("limits", {}).get("hugepages-2Mi") == "1Gi"
        and first(spec)["resources"]["limits"]["rdma/hca"] == "2"
    ),
    "resources: {requests: {ephemeral-storage: 1Gi}}": lambda spec: (
        first(spec)["resources"].get("requests", {}).get("ephemeral-storage") == "1Gi"
    ),
    "env: [{name: MINE, value: x}]": lambda spec: {"name": "MINE", "value": "x"} in first(spec).get("env", []),
    "envFrom: [{secretRef: {name: hub}}]": lambda spec: first(spec).get("envFrom") == [{"secretRef": {"name": "hub"}}],
    "nodeSelector: {pool: a}": lambda spec: spec.get("nodeSelector") == {"pool": "a"},
    "tolerations: [{key: a, operator: Exists}]": lambda spec: {"key": "a", "operator": "Exists"} in spec["tolerations"],
    "affinity: {nodeAffinity: {}}": lambda spec: "nodeAffinity" in spec.get("affinity", {}),
    "topology: {policy: spread, key: zone}": lambda spec: (
        [one["topologyKey"] for one in spec.get("topologySpreadConstraints", [])] == ["zone"]
    ),
    "topology: {policy: pack, key: rack, required: true}": lambda spec: "podAffinity" in spec.get("affinity", {}),
    "podSpec: {hostUsers: false}": lambda spec: spec.get("hostUsers") is False,
    "podSpec: {shareProcessNamespace: false}": lambda spec: spec.get("shareProcessNamespace") is False,
    "podSpec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}": (
        lambda spec: [one["topologyKey"] for one in spec.get("topologySpreadConstraints", [])] == ["zone"]
    ),
    "initContainers: [{name: prepare, image: busybox}]": lambda spec: (
        [one["name"] for one in spec.get("initContainers", [])] == ["prepare"]
    ),
    "sidecars: [{name: proxy, image: proxy, restartPolicy: Always}]": lambda spec: (
        [(one["name"], one["restartPolicy"]) for one in spec.get("initContainers", [])] == [("proxy", "Always")]
    ),
    "volumes: [{name: cache, emptyDir: {}}]": lambda spec: {"name": "cache", "emptyDir": {}} in spec["volumes"],
    "volumes: [{name: c, emptyDir: {}}], volumeMounts: [{name: c, mountPath: /c}]": lambda spec: (
        {"name": "c", "mountPath": "/c"} in first(spec)["volumeMounts"]
    ),
    "securityContext: {supplementalGroups: [5000]}": lambda spec: (
        spec["securityContext"].get("supplementalGroups") == [5000]
    ),
    "securityContext: {runAsGroup: 5000, fsGroup: 6000}": lambda spec: (
        (spec["securityContext"]["runAsGroup"], spec["securityContext"]["fsGroup"]) == (5000, 6000)
    ),
    "containerSecurityContext: {readOnlyRootFilesystem: false}": lambda spec: (
        first(spec)["securityContext"]["readOnlyRootFilesystem"] is False
    ),
    "priorityClassName: high": lambda spec: spec.get("priorityClassName") == "high",
    "runtimeClassName: nvidia": lambda spec: spec.get("runtimeClassName") == "nvidia",
    "schedulerName: bin-packing": lambda spec: spec.get("schedulerName") == "bin-packing",
}


@every_role
@pytest.mark.parametrize("value", SPEC)
def test_value_reaches_the_pods_of_its_role_alone(helm: Path, tmp_path: Path, role: str, value: str) -> None:
    found = with_role(helm, role, f"{{{value}}}", tmp_path)

    assert SPEC[value](found.pod(role))
    assert [other for other in others(role, found) if SPEC[value](found.pod(other))] == []


@every_role
def test_labels_and_annotations_reach_the_pods_of_their_role_alone(helm: Path, tmp_path: Path, role: str) -> None:
    found = with_role(helm, role, "{labels: {team: a}, annotations: {k8s.v1.cni.cncf.io/networks: rdma}}", tmp_path)

    for each in found.replicas:
        metadata, is_of_role = found.metadata(each), each not in others(role, found)
        assert ("team" in metadata["labels"]) == is_of_role
        assert ("k8s.v1.cni.cncf.io/networks" in metadata["annotations"]) == is_of_role


TOP = """
resources: {requests: {ephemeral-storage: 1Gi}, limits: {ephemeral-storage: 2Gi}}
env: [{name: A, value: top}, {name: B, value: top}]
envFrom: [{secretRef: {name: top}}]
nodeSelector: {pool: top, zone: a}
tolerations: [{key: top, operator: Exists}]
affinity: {nodeAffinity: {}, podAntiAffinity: {}}
podSpec: {dnsPolicy: Default, hostUsers: false}
initContainers: [{name: one, image: top}, {name: two, image: top}]
sidecars: [{name: proxy, image: top, restartPolicy: Always}]
securityContext: {fsGroup: 1, supplementalGroups: [1]}
containerSecurityContext: {readOnlyRootFilesystem: false}
podLabels: {team: top, tier: a}
podAnnotations: {net: top, other: a}
priorityClassName: top
runtimeClassName: top
schedulerName: top
"""
OWN = """
servers:
  resources: {limits: {ephemeral-storage: 3Gi}}
  env: [{name: B, value: own}]
  envFrom: [{secretRef: {name: own}}]
  nodeSelector: {pool: own}
  tolerations: [{key: own, operator: Exists}]
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
  podSpec: {dnsPolicy: ClusterFirst}
  initContainers: [{name: two, image: own}]
  sidecars: [{name: proxy, image: own, restartPolicy: Always}]
  securityContext: {fsGroup: 2}
  containerSecurityContext: {readOnlyRootFilesystem: true}
  labels: {team: own}
  annotations: {net: own}
  priorityClassName: own
  runtimeClassName: own
  schedulerName: own
"""


def test_default_at_the_top_reaches_every_pod(helm: Path, tmp_path: Path) -> None:
    found = rendered(helm, "mxjob-v1", TOP, tmp_path)

    for role, pod in found.pods().items():
        assert first(pod)["resources"]["limits"]["ephemeral-storage"] == "2Gi"
        assert {"name": "A", "value": "top"} in first(pod)["env"]
        assert first(pod)["envFrom"] == [{"secretRef": {"name": "top"}}]
        assert pod["nodeSelector"] == {"pool": "top", "zone": "a"}
        assert {"key": "top", "operator": "Exists"} in pod["tolerations"]
        assert set(pod["affinity"]) == {"nodeAffinity", "podAntiAffinity"}
        assert (pod["dnsPolicy"], pod["hostUsers"]) == ("Default", False)
        assert [one["name"] for one in pod["initContainers"]] == ["proxy", "one", "two"]
        assert (pod["securityContext"]["fsGroup"], pod["securityContext"]["supplementalGroups"]) == (1, [1])
        assert first(pod)["securityContext"]["readOnlyRootFilesystem"] is False
        assert (pod["priorityClassName"], pod["runtimeClassName"], pod["schedulerName"]) == ("top", "top", "top")
        metadata = found.metadata(role)
        assert {"team": "top", "tier": "a"}.items() <= metadata["labels"].items()
        assert {"net": "top", "other": "a"}.items() <= metadata["annotations"].items()


def test_value_of_a_role_comes_over_the_default_at_the_top(helm: Path, tmp_path: Path) -> None:
    found = rendered(helm, "mxjob-v1", TOP + OWN, tmp_path)

    pod, metadata = found.pod("Server"), found.metadata("Server")
    assert first(pod)["resources"]["limits"]["ephemeral-storage"] == "3Gi"
    assert first(pod)["resources"]["requests"]["ephemeral-storage"] == "1Gi"
    env = {one["name"]: one.get("value") for one in first(pod)["env"]}
    assert (env["A"], env["B"]) == ("top", "own")
    assert len(env) == len(first(pod)["env"])
    assert [one["secretRef"]["name"] for one in first(pod)["envFrom"]] == ["top", "own"]
    assert pod["nodeSelector"] == {"pool": "own", "zone": "a"}
    assert [one["key"] for one in pod["tolerations"]][:2] == ["top", "own"]
    assert pod["affinity"]["podAntiAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": []}
    assert pod["affinity"]["nodeAffinity"] == {}
    assert (pod["dnsPolicy"], pod["hostUsers"]) == ("ClusterFirst", False)
    assert [(one["name"], one["image"]) for one in pod["initContainers"]] == [
        ("proxy", "own"),
        ("one", "top"),
        ("two", "own"),
    ]
    assert (pod["securityContext"]["fsGroup"], pod["securityContext"]["supplementalGroups"]) == (2, [1])
    assert first(pod)["securityContext"]["readOnlyRootFilesystem"] is True
    assert (pod["priorityClassName"], pod["runtimeClassName"], pod["schedulerName"]) == ("own", "own", "own")
    assert {"team": "own", "tier": "a"}.items() <= metadata["labels"].items()
    assert {"net": "own", "other": "a"}.items() <= metadata["annotations"].items()
    assert found.pod("Worker")["priorityClassName"] == "top"


def test_empty_text_of_a_role_takes_the_default_away(helm: Path, tmp_path: Path) -> None:
    found = rendered(helm, "mpijob-v2beta1", 'runtimeClassName: top\nlauncher: {runtimeClassName: ""}\n', tmp_path)

    assert found.pod("Worker")["runtimeClassName"] == "top"
    assert "runtimeClassName" not in found.pod("Launcher")


def test_field_in_the_podspec_of_a_role_comes_over_the_top(helm: Path, tmp_path: Path) -> None:
    values = (
        "runtimeClassName: top\nschedulerName: top\nworkers: {podSpec: {runtimeClassName: own, schedulerName: own}}\n"
    )

    found = rendered(helm, "mpijob-v2beta1", values, tmp_path)

    told = {
        role: [found.pod(role)[key] for key in ("runtimeClassName", "schedulerName")] for role in ("Worker", "Launcher")
    }
    assert told == {"Worker": ["own", "own"], "Launcher": ["top", "top"]}


GUARANTEED = "{gpus: 0, cpu: 8, memory: 16Gi, resources: {limits: {cpu: 8}}}"


def test_worker_can_be_guaranteed(helm: Path, tmp_path: Path) -> None:
    resources = with_role(helm, "Worker", GUARANTEED, tmp_path).container("Worker")["resources"]

    assert resources == {"requests": {"cpu": "8", "memory": "16Gi"}, "limits": {"cpu": "8", "memory": "16Gi"}}


@pytest.mark.parametrize("role", ["Worker", "Launcher"])
def test_limit_without_a_request_takes_the_default_request_away(helm: Path, tmp_path: Path, role: str) -> None:
    """If a request is missing, Kubernetes sets it to the limit.

    So a pod whose containers have only limits is in the QoS class Guaranteed.
    """
    values = "{resources: {limits: {cpu: 2, memory: 4Gi}}}"
    section, kind = ROLES[role]
    found = rendered(helm, kind, f"{section}: {values}\nworkers: {{gpus: 0}}\n" if section != "workers" else
                     "workers: {gpus: 0, resources: {limits: {cpu: 2, memory: 4Gi}}}\n", tmp_path)  # fmt: skip

    assert found.container(role)["resources"] == {"limits": {"cpu": "2", "memory": "4Gi"}}


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi"],
)
def test_gpus_may_be_of_any_maker(helm: Path, tmp_path: Path, resource: str) -> None:
    found = with_role(helm, "Worker", f"{{gpus: 4, gpuResource: {resource}}}", tmp_path)

    assert found.container("Worker")["resources"] == {"limits": {resource: 4}}
    assert found.job["spec"]["slotsPerWorker"] == 4


CLAIMS = "podSpec: {resourceClaims: [{name: gpus, resourceClaimTemplateName: t}, {name: nic, resourceClaimName: a}]}"


def test_gpus_of_claims_count_as_ranks(helm: Path, tmp_path: Path) -> None:
    found = with_role(helm, "Worker", f'{{gpus: 8, gpuResource: "", {CLAIMS}}}', tmp_path)

    assert found.container("Worker")["resources"] == {"claims": [{"name": "gpus"}, {"name": "nic"}]}
    assert found.job["spec"]["slotsPerWorker"] == 8


def test_container_claims_what_the_values_name(helm: Path, tmp_path: Path) -> None:
    named = with_role(helm, "Worker", f"{{resources: {{claims: [{{name: gpus, request: one}}]}}, {CLAIMS}}}", tmp_path)
    none = with_role(helm, "Worker", f"{{resources: {{claims: []}}, {CLAIMS}}}", tmp_path)

    assert named.container("Worker")["resources"]["claims"] == [{"name": "gpus", "request": "one"}]
    assert "claims" not in none.container("Worker")["resources"]


def test_launcher_may_claim_too(helm: Path, tmp_path: Path) -> None:
    found = with_role(helm, "Launcher", f"{{{CLAIMS}}}", tmp_path)

    assert found.container("Launcher")["resources"]["claims"] == [{"name": "gpus"}, {"name": "nic"}]
    assert "claims" not in found.container("Worker")["resources"]


def test_launcher_can_be_packed_to_the_workers(helm: Path, tmp_path: Path) -> None:
    found = with_role(helm, "Launcher", "{topology: {policy: pack, required: true, key: rack}}", tmp_path)

    (term,) = found.pod("Launcher")["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "rack"
    assert term["labelSelector"]["matchExpressions"][0]["values"] == ["master", "worker"]


def test_servers_spread_from_each_other(helm: Path, tmp_path: Path) -> None:
    found = with_role(helm, "Server", "{replicas: 2, topology: {policy: spread}}", tmp_path)

    (constraint,) = found.pod("Server")["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "server"
    assert "topologySpreadConstraints" not in found.pod("Worker")


def test_native_sidecar_starts_before_other_init_containers(helm: Path, tmp_path: Path) -> None:
    values = """{
  sidecars: [{name: proxy, image: proxy, restartPolicy: Always}, {name: exporter, image: exporter}],
  initContainers: [{name: prepare, image: busybox}]}"""

    pod = with_role(helm, "Worker", values, tmp_path).pod("Worker")

    assert [one["name"] for one in pod["initContainers"]] == ["proxy", "prepare"]
    assert [one["name"] for one in pod["containers"]] == ["worker", "exporter"]
    assert all(one["securityContext"]["capabilities"] == {"drop": ["ALL"]} for one in pod["initContainers"])


def test_privileged_container_may_escalate(helm: Path, tmp_path: Path) -> None:
    """Kubernetes refuses privileged: true with allowPrivilegeEscalation: false."""
    values = "podSecurity: privileged\nworkers: {containerSecurityContext: {privileged: true}}\n"

    security = rendered(helm, "mpijob-v2beta1", values, tmp_path).container("Worker")["securityContext"]

    assert (security["privileged"], "allowPrivilegeEscalation" in security) == (True, False)


def test_capabilities_are_added_to_those_of_the_chart(helm: Path, tmp_path: Path) -> None:
    rdma = "podSecurity: privileged\nnetwork: {rdma: {resource: rdma/hca}}\n"
    more = "workers: {containerSecurityContext: {capabilities: {add: [SYS_PTRACE]}}}\n"

    restricted = with_role(
        helm, "Worker", "{containerSecurityContext: {capabilities: {add: [NET_BIND_SERVICE]}}}", tmp_path
    ).container("Worker")
    privileged = rendered(helm, "mpijob-v2beta1", rdma + more, tmp_path).container("Worker")

    assert restricted["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    assert restricted["securityContext"]["allowPrivilegeEscalation"] is False
    assert privileged["securityContext"]["capabilities"] == {"add": ["IPC_LOCK", "SYS_PTRACE"]}


@pytest.mark.parametrize("kind", ["pytorchjob-elastic", "mpijob-v1", "tfjob"])
def test_openshift_may_choose_user_and_groups(helm: Path, tmp_path: Path, kind: str) -> None:
    for pod in rendered(helm, kind, "runAsUser: cluster\n", tmp_path).pods().values():
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("spelling", ["17179869184", "16Gi"])
def test_memory_may_be_a_number(helm: Path, tmp_path: Path, spelling: str) -> None:
    found = with_role(helm, "Worker", f"{{memory: {spelling}, shm: 2147483648}}", tmp_path)

    assert found.container("Worker")["resources"]["limits"]["memory"] == spelling
    (shm,) = [one for one in found.pod("Worker")["volumes"] if one["name"] == "shm"]
    assert shm["emptyDir"]["sizeLimit"] == "2147483648"


@pytest.mark.parametrize("spelling", ["{memory: 512Mi}", "{resources: {limits: {memory: 512Mi}}}"])
def test_shared_memory_is_no_larger_than_the_memory_limit(helm: Path, tmp_path: Path, spelling: str) -> None:
    for values in (f"workers: {spelling}\n", "resources: {limits: {memory: 512Mi}}\n"):
        (shm,) = [
            one for one in rendered(helm, "plain", values, tmp_path).pod("Worker")["volumes"] if one["name"] == "shm"
        ]
        assert shm["emptyDir"]["sizeLimit"] == "512Mi"


@pytest.mark.parametrize("top", ["runtimeClassName: top", "podSpec: {runtimeClassName: top}"])
@pytest.mark.parametrize("own", ['runtimeClassName: ""', "podSpec: {runtimeClassName: null}"])
def test_role_takes_the_runtime_class_at_the_top_away(helm: Path, tmp_path: Path, top: str, own: str) -> None:
    found = rendered(helm, "mpijob-v2beta1", f"{top}\nlauncher: {{{own}}}\n", tmp_path)

    assert found.pod("Worker")["runtimeClassName"] == "top"
    assert "runtimeClassName" not in found.pod("Launcher")


def test_role_takes_scheduler_and_priority_class_at_the_top_away(helm: Path, tmp_path: Path) -> None:
    top = "podSpec: {schedulerName: top}\npriorityClassName: top\n"

    found = rendered(helm, "mpijob-v2beta1", f'{top}workers: {{schedulerName: "", priorityClassName: ""}}\n', tmp_path)

    assert not {"schedulerName", "priorityClassName"} & found.pod("Worker").keys()
    assert (found.pod("Launcher")["schedulerName"], found.pod("Launcher")["priorityClassName"]) == ("top", "top")


def test_roles_own_name_comes_over_the_pod_spec_at_the_top(helm: Path, tmp_path: Path) -> None:
    values = "podSpec: {runtimeClassName: top}\nworkers: {runtimeClassName: own}\n"

    found = rendered(helm, "mpijob-v2beta1", values, tmp_path)

    assert [found.pod(role)["runtimeClassName"] for role in ("Worker", "Launcher")] == ["own", "top"]


def test_null_takes_a_limit_at_the_top_away(helm: Path, tmp_path: Path) -> None:
    values = "resources: {limits: {cpu: 3, ephemeral-storage: 1Gi}}\nworkers: {resources: {limits: {cpu: null}}}\n"

    found = rendered(helm, "mpijob-v2beta1", values, tmp_path)

    assert {role: found.container(role)["resources"]["limits"].get("cpu") for role in found.replicas} == {
        "Launcher": "3", "Worker": None
    }  # fmt: skip


NOTES = """
x-top: {a: 1}
job: {x-note: mine}
workers: {x-note: mine, topology: {x-note: mine}, resources: {x-note: mine}, podSpec: {x-note: mine}}
launcher: {x-note: mine, podSpec: {x-note: [1]}}
network: {rdma: {x-note: mine}}
servers: {x-note: mine}
"""


def test_keys_of_ones_own_are_ignored_at_every_level(helm: Path, tmp_path: Path) -> None:
    found = rendered(helm, "mpijob-v2beta1", NOTES, tmp_path)

    assert found.text == render(helm).text
