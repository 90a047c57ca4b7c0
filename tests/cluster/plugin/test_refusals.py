"""Test the messages for common mistakes: each names the value's path, what was found, and the next step."""

from __future__ import annotations

import pytest

from tests.cluster.testbed import WRONG_KEY, Namespace, settings


def _nothing_was_created(namespace: Namespace) -> bool:
    releases = [secret for secret in namespace.get("secrets") if secret["type"] == "helm.sh/release.v1"]
    return not releases and not namespace.get("mpijobs,configmaps -l app.kubernetes.io/instance=run1")


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        pytest.param({"workers.replica": 3}, 2, "workers.replica", id="misspelt-key"),
        pytest.param({"workers.gpus": "many"}, 2, "workers.gpus", id="wrong-type"),
        pytest.param({"workers.replicas": 0}, 2, "workers.replicas", id="no-workers"),
        pytest.param({"workers.gpus": 16}, 11, "workers.gpus", id="more-gpus-than-any-node-has"),
    ],
)
def test_bad_values_are_refused_before_anything_is_created(
    namespace: Namespace, digits_settings: list[str], values: dict[str, object], code: int, words: str
) -> None:
    refused = namespace.distrain("install", "run1", *digits_settings, *settings(values))

    assert refused.returncode == code, refused.stderr
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert _nothing_was_created(namespace)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        # With `maxRestarts: 0`, the Job reports its first failure at once.
        pytest.param(
            {"data.uri": "s3://no-such-bucket/digits", "job.maxRestarts": 0},
            'bucket "no-such-bucket"',
            id="bucket-missing",
        ),
        pytest.param({"s3.secretName": WRONG_KEY}, "s3.secretName", id="wrong-key", marks=pytest.mark.full),
    ],
)
def test_unreachable_data_fails_the_job_with_one_line(
    namespace: Namespace, digits_settings: list[str], values: dict[str, object], words: str
) -> None:
    installed = namespace.distrain("install", "run1", *digits_settings, *settings(values), "--wait", "--timeout", "3m")
    assert installed.returncode == 4, installed.stderr
    outcome = namespace.wait_for_end(seconds=180)

    message = namespace.launcher_end()["message"]
    assert installed.stderr.splitlines()[-2] == message.strip()
    assert outcome == "Failed"
    assert words in message
    assert message.startswith("distrain: ")
    assert len(message.strip().splitlines()) == 1


# This volume mounts an empty folder over a folder of the image, which hides the folder's files.
EMPTY = {"volumes[0].name": "empty", "volumes[0].emptyDir": {}, "volumeMounts[0].name": "empty"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"trainer.batchSize": 100000}, "trainer.batchSize: 1 ranks of 100000 take", id="batch-size"),
        pytest.param({"command": ["python3", "/no.py"]}, "command: python3: can't open file '/no.py'", id="script"),
        pytest.param(
            {"command": ["python3", "-c", "raise ValueError('no such model')"]},
            ": ValueError: no such model; ",
            id="raises",
        ),
        pytest.param(
            {"workers.memory": "150Mi"}, "was killed by signal 9, as when memory runs out", id="out-of-memory"
        ),
        pytest.param(
            {**EMPTY, "volumeMounts[0].mountPath": "/usr/sbin"}, "image.repository: the image has no sshd", id="no-sshd"
        ),
        pytest.param(
            {"image.repository": "distrain/pause", "image.tag": "lab"},
            "/pause:lab has no python3 or no",
            id="no-python",
        ),
        pytest.param(
            {"s3.endpoint": "http://127.0.0.1:1"}, "s3.endpoint: http://127.0.0.1:1 cannot be", id="no-server"
        ),
    ],
)
def test_wait_ends_with_the_runs_own_cause_although_the_run_is_tried_again(
    namespace: Namespace, digits_settings: list[str], values: dict[str, object], words: str
) -> None:
    small = {"workers.replicas": 1, **values}

    installed = namespace.distrain("install", "run1", *digits_settings, *settings(small), "--wait", "--timeout", "3m")

    assert installed.returncode == 4, installed.stderr
    cause, stays = installed.stderr.splitlines()[-2:]
    assert words in cause
    assert "; " in cause
    assert stays.startswith("distrain: run1: stays installed; mend it with ")


def test_job_that_fits_is_accepted_where_its_neighbours_are_refused(
    namespace: Namespace, digits_settings: list[str]
) -> None:
    checked = namespace.distrain("check", *digits_settings, *settings({"workers.gpus": 4}))

    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("fits")
