"""Test that objects over the size limits of the API server or etcd are refused."""

from __future__ import annotations

import base64
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.workload.object_sizes import data_size, too_large
from tests.plugin.admission.refusing import ROOM, valid_job
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object, mpi_job
from tests.plugin.program import Run

ANNOTATIONS, DATA, STORED = 2**18, 2**20, 3 * 2**19


def _config_map(**data: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **data}


def _with_env(job: Object, size: int) -> Object:
    for role in job["spec"]["mpiReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["env"] = [{"name": "LONG", "value": "x" * size}]
    return job


def _annotated(job: Object, size: int) -> Object:
    job["metadata"] = {**job["metadata"], "annotations": {"a": "x" * (size - 1)}}
    return job


@pytest.mark.parametrize(
    ("objects", "reason", "words"),
    [
        pytest.param(
            [_annotated(valid_job(), ANNOTATIONS + 1)],
            "Job is invalid: metadata.annotations: Too long: may not be more than 262144 bytes, and has 262145",
            "Correct metadata.annotations.",
            id="annotations",
        ),
        pytest.param(
            [valid_job(), _config_map(data={"k": "é" * (DATA // 2 + 1)})],
            "ConfigMap is invalid: []: Too long: may not be more than 1048576 bytes",
            "ConfigMap c: 1,048,578 bytes (data.k: 1,048,580), but 1,048,576 is the most that can be stored.",
            id="config-map",
        ),
        pytest.param(
            [valid_job(), _config_map(binaryData={"k": "A" * ((DATA + 3) // 3 * 4)})],
            "ConfigMap is invalid: []: Too long",
            "ConfigMap c: 1,048,57",
            id="binary-data",
        ),
        pytest.param(
            [_with_env(mpi_job(workers=2), STORED // 2)],
            "etcdserver: request is too large",
            "MPIJob run1-1234abcd: 1,573,",
            id="custom-resource",
        ),
        pytest.param(
            [valid_job(), {**_config_map(), "kind": "Secret", "stringData": {"k": "x" * (DATA + 1)}}],
            "Secret is invalid: data: Too long",
            "Secret c: 1,048,577 bytes",
            id="secret",
        ),
    ],
)
def test_object_over_a_limit_is_refused_with_its_size(objects: list[Object], reason: str, words: str) -> None:
    answer = judged(job_of(*objects), ROOM)

    assert answer.verdict == "impossible"
    assert any(reason in each.reason for each in answer.reasons)
    assert words in answer.next


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([_annotated(valid_job(), ANNOTATIONS)], id="annotations"),
        pytest.param([valid_job(), _config_map(data={"k": "é" * (DATA // 2)})], id="config-map"),
        pytest.param([valid_job(), _config_map(binaryData={"k": "A" * (DATA // 3 * 4)})], id="binary-data"),
        pytest.param([_with_env(mpi_job(workers=1), STORED // 2 - 1000)], id="custom-resource"),
    ],
)
def test_object_at_a_limit_is_accepted(objects: list[Object]) -> None:
    reasons = str(judged(job_of(*objects), ROOM).reasons)

    assert "Too long" not in reasons
    assert "too large" not in reasons


@pytest.mark.parametrize(
    ("kilobytes", "is_refused"),
    [pytest.param(300, True, id="too-large"), pytest.param(130, False, id="near-the-limit")],
)
def test_release_that_helm_cannot_record_is_refused(
    run: Run, tmp_path: Path, kilobytes: int, *, is_refused: bool
) -> None:
    chance, letters = random.Random(1), string.ascii_letters + string.digits
    env = [{"name": f"E{number}", "value": "".join(chance.choices(letters, k=1000))} for number in range(kilobytes)]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"image": {"repository": "mine"}, "env": env}))

    outcome = run("check", "-f", str(tmp_path / "values.yaml"), "--offline", "--assume-nodes", "4x8")

    assert bool(re.search(r"Helm's record of the release: 1,\d{3},\d{3} bytes", outcome.out)) == is_refused, outcome
    assert (outcome.code == 11) == is_refused


def _secret(**data: Any) -> Object:
    return {**_config_map(**data), "kind": "Secret"}


def _encoded(size: int, *, folded: bool = False) -> str:
    return (base64.encodebytes if folded else base64.b64encode)(b"x" * size).decode()


@pytest.mark.parametrize("above", [0, 1, 2, 3])
@pytest.mark.parametrize(("kind", "field"), [("Secret", "data"), ("ConfigMap", "binaryData")])
@pytest.mark.parametrize("folded", [False, True], ids=["one-line", "lines"])
def test_bytes_of_base64_are_those_that_the_api_server_decodes(
    kind: str, field: str, above: int, *, folded: bool
) -> None:
    item = {**_config_map(**{field: {"k": _encoded(DATA + above, folded=folded)}}), "kind": kind}

    assert data_size(item) == DATA + above
    assert [each.size for each in too_large([item])] == [DATA + above] * (above > 0)


def test_string_data_of_a_secret_replaces_data_of_the_same_name() -> None:
    half = DATA // 2 + 10

    assert data_size(_secret(data={"k": _encoded(half)}, stringData={"k": "y" * half})) == half
    assert data_size(_secret(data={"k": _encoded(half)}, stringData={"l": "y" * half})) == 2 * half


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param(_config_map(binaryData=[1]), "ConfigMap c: binaryData", id="list"),
        pytest.param(_secret(stringData="x"), "Secret c: stringData", id="text"),
        pytest.param(_secret(stringData={"k": 1}), "Secret c: stringData.k", id="number"),
    ],
)
def test_data_of_another_form_is_a_mistake(item: Object, words: str) -> None:
    with pytest.raises(ValuesError, match=words):
        job_of(valid_job(), item)


def test_object_of_many_short_texts_is_larger_in_json_than_it_is_stored() -> None:
    many = valid_job()
    many["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": f"A{n}", "value": "x"} for n in range(120_000)]

    [found] = too_large([many])

    assert found.size > 3 * 2**20
    assert found.reason == "Request entity too large: limit is 3145728"
    assert found.field == "spec.template.spec.containers[0].env"


@pytest.mark.parametrize(("size", "is_refused"), [(ANNOTATIONS, False), (ANNOTATIONS + 1, True)])
def test_annotations_of_other_objects_have_a_limit_too(size: int, *, is_refused: bool) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}

    reasons = str(judged(job_of(valid_job(), _annotated(account, size)), ROOM).reasons)

    assert ("ServiceAccount is invalid: metadata.annotations: Too long" in reasons) == is_refused
