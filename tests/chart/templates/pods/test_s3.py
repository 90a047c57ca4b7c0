"""Test how the pods get an S3 server's certificates and addressing style, and the credentials of a cloud role."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.api_schemas import all_complaints
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Rendered, Yaml, refusal, render_with, set_arguments
from tests.chart.templates.objects.everything import everything, pods

SECRET, CONFIG_MAP = "s3.caBundle.secretName=ca", "s3.caBundle.configMapName=ca"
ENDPOINT = ("s3.endpoint=https://s3.example.com", "data.uri=s3://digits")
FOLDER = "/etc/distrain/s3-ca"


def with_certificates(helm: Path, kind: str, *values: str) -> Rendered:
    return render_with(helm, (*KINDS[kind], *ENDPOINT, *values))


def volumes(pod: Yaml) -> list[Yaml]:
    return [volume for volume in pod["volumes"] if volume["name"] == "s3-ca"]


@every_kind
def test_certificates_are_mounted_in_every_pod_with_s3(helm: Path, kind: str) -> None:
    rendered = with_certificates(helm, kind, SECRET)

    for role in set(rendered.replicas) - {"Keygen"}:
        mount = {"name": "s3-ca", "mountPath": FOLDER, "readOnly": True}
        assert rendered.env(role)["AWS_CA_BUNDLE"]["value"] == f"{FOLDER}/ca.crt"
        assert mount in rendered.container(role)["volumeMounts"]
        assert [one["secret"] for one in volumes(rendered.pod(role))] == [
            {"secretName": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
        ]
    assert list(all_complaints(rendered)) == [] or kind == "mxjob-v1beta1"


def test_certificates_may_be_under_any_key_of_a_config_map(helm: Path) -> None:
    rendered = with_certificates(helm, "pytorchjob-elastic", CONFIG_MAP, "s3.caBundle.key=bundle.pem")

    (volume,) = volumes(rendered.pod("Worker"))

    assert volume["configMap"] == {"name": "ca", "items": [{"key": "bundle.pem", "path": "ca.crt"}]}


@every_kind
def test_pods_without_s3_have_no_certificates(helm: Path, kind: str) -> None:
    found = pods(everything(helm, kind, *ENDPOINT, CONFIG_MAP))

    with_them = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in found if volumes(pod["spec"])}

    of_test = [pod for pod in found if pod["metadata"]["labels"]["app.kubernetes.io/instance"] != "run1"]
    assert [pod for pod in of_test if volumes(pod["spec"])] == []
    assert "worker" in with_them
    assert not with_them & {"keygen", "preflight", "replace", "test"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["s3.caBundle.key=a"], "s3.caBundle: names no Secret and no ConfigMap; set s3.caBundle.secretName or"),
        ([SECRET, CONFIG_MAP], 's3.caBundle: names the Secret "ca" and the ConfigMap "ca"; remove one of the two'),
        ([SECRET, "s3.insecureTLS=true"], "s3.caBundle: is set, but s3.insecureTLS is true, which accepts any"),
        (
            [SECRET, "volumes[0].name=s3-ca", "volumes[0].emptyDir.medium="],
            'volumes[0].name: "s3-ca" is the name of a volume that the job itself has; choose another name',
        ),
        (
            [SECRET, "volumes[0].name=a", "volumeMounts[0].name=a", f"volumeMounts[0].mountPath={FOLDER}"],
            f'volumeMounts[0].mountPath: "{FOLDER}" is a path that the job itself mounts; choose another path',
        ),
    ],
)
def test_certificates_that_contradict_another_value_are_refused(helm: Path, values: list[str], words: str) -> None:
    assert f"distrain: {words}" in refusal(helm, *set_arguments(*values))

    render_with(helm, values[1:] if SECRET in values else [SECRET, *values])


def test_empty_block_of_certificates_is_refused(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("s3: {caBundle: {}}", encoding="utf-8")

    words = refusal(helm, "--values", str(values))

    assert "distrain: s3.caBundle: names no Secret and no ConfigMap; set s3.caBundle.secretName or" in words


def test_region_without_s3_is_refused(helm: Path) -> None:
    words = refusal(helm, *set_arguments("s3.region=eu-central-1"))

    assert "distrain: s3.region: is eu-central-1, but no value refers to S3; set s3.endpoint or" in words
    render_with(helm, ("s3.region=us-east-1",))
    render_with(helm, ("s3.region=eu-central-1", "output.uri=s3://results"))


def test_addressing_style_without_s3_is_refused(helm: Path) -> None:
    words = refusal(helm, *set_arguments("s3.addressingStyle=path"))

    assert (
        "distrain: s3.addressingStyle: is path, but no value refers to S3; set s3.endpoint or s3.secretName "
        "if the program uses S3, or remove s3.addressingStyle" in words
    )
    render_with(helm, ("s3.addressingStyle=path", "output.uri=s3://results"))
    render_with(helm, ("s3.addressingStyle=path", "s3.secretName=keys"))


@every_kind
@pytest.mark.parametrize("style", ["path", "virtual"])
def test_addressing_style_reaches_every_rank(helm: Path, kind: str, style: str) -> None:
    rendered = with_certificates(helm, kind, f"s3.addressingStyle={style}")

    assert rendered.env("Worker")["DISTRAIN_S3_ADDRESSING_STYLE"]["value"] == style
    assert "DISTRAIN_S3_ADDRESSING_STYLE" not in with_certificates(helm, kind).env("Worker")


@every_kind
def test_without_a_secret_no_variable_stands_before_the_role_of_the_pod(helm: Path, kind: str) -> None:
    # boto3 looks for credentials in variables, then in IRSA's web identity, the EKS Pod Identity agent, and the node.
    rendered = with_certificates(helm, kind)

    names = {name for role in set(rendered.replicas) - {"Keygen"} for name in rendered.env(role)}

    assert {name for name in names if name.startswith("AWS_")} == {"AWS_REGION", "AWS_ENDPOINT_URL_S3"}
