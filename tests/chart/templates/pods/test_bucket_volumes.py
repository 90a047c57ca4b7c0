"""Test that values alone are enough to mount buckets and other volumes as the vendors' documentation shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Rendered, Yaml, refusal, render, set_arguments

GCS_VOLUME = {
    "name": "data",
    "csi": {
        "driver": "gcsfuse.csi.storage.gke.io",
        "readOnly": True,
        "volumeAttributes": {"bucketName": "digits", "mountOptions": "implicit-dirs,uid=1000,gid=1000"},
    },
}
GCS = """
data: {uri: /data/digits}
workers: {annotations: {gke-gcsfuse/volumes: "true"}}
serviceAccount: {annotations: {iam.gke.io/gcp-service-account: training@project.iam.gserviceaccount.com}}
volumes:
  - name: data
    csi:
      driver: gcsfuse.csi.storage.gke.io
      readOnly: true
      volumeAttributes: {bucketName: digits, mountOptions: "implicit-dirs,uid=1000,gid=1000"}
volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
"""
CLAIM = """
data: {uri: /data/digits}
volumes: [{name: data, persistentVolumeClaim: {claimName: shared, readOnly: true}}]
volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
"""


def rendered(helm: Path, kind: str, values: str, folder: Path) -> Rendered:
    file = folder / "values.yaml"
    file.write_text(values, encoding="utf-8")
    return render(helm, "--values", str(file), *set_arguments(*KINDS[kind]))


def volume(pod: Yaml, name: str) -> list[Yaml]:
    return [one for one in pod["volumes"] if one["name"] == name]


@every_kind
def test_gke_adds_its_fuse_sidecar_to_the_workers(helm: Path, tmp_path: Path, kind: str) -> None:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-ephemeral
    found = rendered(helm, kind, GCS, tmp_path)

    assert found.metadata("Worker")["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert volume(found.pod("Worker"), "data") == [GCS_VOLUME]
    assert found.pod("Worker")["securityContext"]["runAsUser"] == 1000
    account = found.find("ServiceAccount", found.pod("Worker")["serviceAccountName"])
    assert account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"].startswith("training@")


@every_kind
def test_claim_of_mountpoint_for_s3_or_a_shared_file_system_is_mounted_by_every_rank(
    helm: Path, tmp_path: Path, kind: str
) -> None:
    # The driver mounts only volumes that an administrator has created, so the pod needs a claim:
    # https://docs.aws.amazon.com/eks/latest/userguide/s3-csi.html
    found = rendered(helm, kind, CLAIM, tmp_path)

    for role in {"Worker", "Master", "Chief"} & set(found.replicas):
        assert volume(found.pod(role), "data")[0]["persistentVolumeClaim"] == {"claimName": "shared", "readOnly": True}
        mounts = found.container(role)["volumeMounts"]
        assert {"name": "data", "mountPath": "/data", "readOnly": True} in mounts
    if "Launcher" in found.replicas:
        assert volume(found.pod("Launcher"), "data") == []


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_folder_of_the_node_needs_privileged_pods(helm: Path, level: str) -> None:
    values = ("volumes[0].name=scratch", "volumes[0].hostPath.path=/mnt/nvme")

    words = refusal(helm, *set_arguments(*values, f"podSecurity={level}"))

    assert f"distrain: volumes[0].hostPath: podSecurity {level} forbids it; use a persistentVolumeClaim, or" in words
    accepted = render(helm, *set_arguments(*values, "podSecurity=privileged"))
    assert volume(accepted.pod("Worker"), "scratch")[0]["hostPath"]["path"] == "/mnt/nvme"


@pytest.mark.parametrize("level", ["restricted", "baseline", "privileged"])
def test_every_standard_allows_csi_volumes(helm: Path, level: str) -> None:
    values = ("volumes[0].name=models", "volumes[0].csi.driver=csi.example.com", f"podSecurity={level}")

    found = render(helm, *set_arguments(*values))

    assert volume(found.pod("Worker"), "models")[0]["csi"] == {"driver": "csi.example.com"}
