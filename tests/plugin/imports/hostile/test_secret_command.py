"""Test that the printed command creates a Secret with exactly the keys that the values use."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.errors import ValuesError
from distrain.imports.accepted import Judge
from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.read import finished, read
from distrain.imports.values_file import secret_command
from distrain.redact import HIDDEN
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import judge_for
from tests.plugin.imports.drafts import FILE, Job, accepting, pods, pytorch_job

SECRET = "Zq7hunterZq7hunter2"
PROBE = {"exec": {"command": ["redis-cli", "-a", SECRET]}}


def _with_sidecar(container: Job, **fields: Any) -> Job:
    job = pytorch_job(container)
    env = [{"name": "SIDE_TOKEN", "value": SECRET}]
    for role in ("Master", "Worker"):
        pods(job, role)["containers"].append({"name": "side", "image": "b:1", "env": env, **fields})
    return job


def _drafted(job: Job, judge: Judge = accepting) -> Draft:
    draft = read(find_job(yaml_writer.dump(job), FILE), FILE)
    finished(draft, judge, FILE)
    return draft


def _keys(draft: Draft) -> list[str]:
    return [line.split("=")[1] for line in secret_command(draft)[1:]]


def _refusing(values: dict[str, Any]) -> tuple[str, ...]:
    """Refuse each sidecar, and accept all other values.

    In these tests, this function judges values in place of the chart.
    """
    return ("workers.sidecars[0]: is no container",) if "sidecars" in values.get("workers", {}) else ()


def test_keys_of_a_sidecar_are_listed() -> None:
    assert _keys(_drafted(_with_sidecar({"env": [{"name": "HF_TOKEN", "value": "abc"}]}))) == ["SIDE_TOKEN", "HF_TOKEN"]


@pytest.mark.parametrize(("fields", "judge"), [({"livenessProbe": PROBE}, accepting), ({}, _refusing)])
def test_keys_of_a_sidecar_that_is_left_out_are_not_listed(fields: Job, judge: Judge) -> None:
    draft = _drafted(_with_sidecar({"env": [{"name": "HF_TOKEN", "value": "abc"}]}, **fields), judge)

    assert [place for place, _ in draft.lost if place.endswith("containers[1]")]
    assert _keys(draft) == ["HF_TOKEN"]


def test_without_a_value_that_reads_the_secret_there_is_no_command() -> None:
    assert secret_command(_drafted(_with_sidecar({}), _refusing)) == []


def test_keys_of_a_store_are_listed() -> None:
    connection = {"user_name": "me", "password": "abc"}
    store = {"training_data": {"container": "d"}, "connection": connection}
    framework = {"name": "pytorch", "version": "1", "command": "python a.py"}

    assert _keys(_drafted({"framework": framework, "data_stores": [store]})) == [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ]


def test_message_of_the_chart_is_shown_without_the_value() -> None:
    job = pytorch_job()
    job["metadata"]["annotations"] = {"note": SECRET, "other": "plain words"}

    def judge(values: dict[str, Any]) -> list[str]:
        found = values.get("commonAnnotations", {})
        return [f"commonAnnotations.{key}: is '{value}', which is no note" for key, value in found.items()][:1]

    assert [why.partition("is ")[2] for _, why in _drafted(job, judge).lost] == [
        f"'{HIDDEN}', which is no note",
        "'plain words', which is no note",
    ]


def test_message_of_the_chart_about_the_whole_job_is_shown_without_the_value() -> None:
    job = pytorch_job({"env": [{"name": "NOTE", "value": SECRET}]})

    with pytest.raises(ValuesError, match=r"^job\.yaml: it has \[hidden\]$"):
        _drafted(job, lambda values: [f"it has {SECRET}"])


@pytest.mark.parametrize("key", ["AWS_SESSION_TOKEN", "AWS_SECRET_ACCESS_KEY"])
def test_key_of_s3_in_a_command_gets_a_variable_besides_the_charts(key: str) -> None:
    store = {"connection": {"user_name": "u5erunter", "password": "p4ssunter"}, "training_data": {"container": "d"}}
    framework = {"name": "pytorch", "version": "1", "command": f"export {key}=t0kenunter; python a.py"}
    found = find_job(yaml_writer.dump({"learners": 1, "data_stores": [store], "framework": framework}), FILE)
    draft = read(found, FILE)

    finished(draft, judge_for("", ""), FILE)

    assert f"{key}_ARGUMENT" in draft.value(("command",))[-1] or f"{key}_2" in draft.value(("command",))[-1]
    names = {entry["name"]: entry for entry in draft.value(("env",))}
    [read_by] = [entry for name, entry in names.items() if name.startswith(key)]
    assert f"--from-literal={read_by['valueFrom']['secretKeyRef']['key']}=..." in "\n".join(secret_command(draft))
