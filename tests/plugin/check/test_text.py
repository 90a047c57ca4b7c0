"""Test the text in which `check` reports its findings to users."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from distrain.check.text import summary
from tests.plugin.check.judging import GPU, GPU_TAINT, chart_job, job_of, judged, said
from tests.plugin.objects import (
    Object,
    mx_job,
    node,
    plain,
    pytorch_job,
    tainted,
    tf_job,
)

LARGE = {"requests": {GPU: 4, "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi"}}


def test_worker_larger_than_any_node_is_impossible_and_named() -> None:
    job = chart_job(workers=1, gpus=16)

    answer = judged(job, [node("a", gpu="8"), node("b", gpu="8")])

    assert (answer.verdict, answer.verdict.exit_code) == ("impossible", 11)
    assert summary(answer, job) == [
        "impossible: workers.gpus: 16 nvidia.com/gpu asked, but no node has more than 8.",
        "  NODES  WHY THEY TAKE NO FURTHER POD",
        "      2  Insufficient nvidia.com/gpu",
        "next: Lower workers.gpus to 8 or less.",
    ]


def test_job_on_the_cpu_does_not_speak_of_gpus() -> None:
    job = chart_job(workers=1, gpus=0, worker={"containers": [{"name": "w", "resources": {"requests": {"cpu": "2"}}}]})

    assert summary(judged(job, [node("a")]), job) == [
        "fits: 1 worker of 2 cpu and 1 launcher of 100m cpu and 512Mi memory"
    ]


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        pytest.param(
            [mx_job(servers=2, workers=2)],
            "fits: 2 workers of 4 nvidia.com/gpu each, 2 servers of 1 cpu each and 1 scheduler of 100m cpu; "
            "8 of 8 GPUs free",
            id="mxnet",
        ),
        pytest.param(
            [tf_job(servers=1, workers=2)],
            "fits: 2 workers of 4 nvidia.com/gpu each, 1 ps of 1 cpu and 1 chief of 100m cpu and 2Gi memory; "
            "8 of 8 GPUs free",
            id="tensorflow",
        ),
        pytest.param(
            plain(workers=2),
            "fits: 2 workers of 4 nvidia.com/gpu each, 1 launcher of 100m cpu and 1 keygen of 50m cpu; "
            "8 of 8 GPUs free",
            id="plain",
        ),
        pytest.param(
            [pytorch_job(workers=2)], "fits: 2 workers of 4 nvidia.com/gpu each; 8 of 8 GPUs free", id="torch"
        ),
    ],
)
def test_every_kind_of_job_is_judged_with_all_its_pods(documents: list[Object], words: str) -> None:
    job = job_of(*documents)

    assert said(judged(job, [node("a", gpu="8")]), job) == words


def test_answer_may_stand_last_where_a_logs_end_is_kept() -> None:
    job = chart_job(workers=1, gpus=16)

    lines = summary(judged(job, [node("a", gpu="8")]), job, answer_last=True)

    assert lines[1] == "      1  Insufficient nvidia.com/gpu"
    assert lines[-1] == (
        "impossible: workers.gpus: 16 nvidia.com/gpu asked, but no node has more than 8. "
        "Lower workers.gpus to 8 or less."
    )


def test_no_line_is_wider_than_a_page_but_the_one_for_a_log() -> None:
    job = chart_job(worker={"schedulerName": "volcano", "containers": [{"name": "w", "resources": LARGE}]})

    answer = judged(job, [tainted(node("a", gpu="8"), GPU_TAINT)])

    assert max(map(len, summary(answer, job))) <= 100
    assert said(answer, job).endswith("not judged: the rules of scheduler volcano of the worker")


def test_command_is_not_broken_into_two_lines() -> None:
    job = chart_job(workers=1, gpus=16)
    command = f"`kubectl --namespace {'n' * 30} describe pvc {'c' * 30}`"
    answer = replace(judged(job, [node("a", gpu="8")]), next=f"Too large. See {command}, then wait for a while.")

    lines = summary(answer, job)

    assert any(command in line for line in lines)
    assert max(map(len, lines)) <= 100
