"""Test the rendered chart: compare it with a golden file for each kind, and test single facts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import CHART, GOLDEN, Rendered, Yaml, parse, render, render_with, run, set_arguments

GOLDEN_HEAD = """# yamllint disable-file
# Rendered from values.yaml beside it and kinds.py, and written by `DISTRAIN_UPDATE_GOLDEN=1 make test-chart`.
"""
ROLES = ["Launcher", "Worker"]


# The chart refuses values that a kind without MPI would ignore.
WITHOUT_DEADLINE = ("job.activeDeadlineSeconds=null",)
WITHOUT_MPI = ("mpi.env.NCCL_DEBUG=null", "rescale.lostWorkerTimeout=60", *WITHOUT_DEADLINE)
GOLDEN_CHANGES = {
    "mpijob-v2beta1": (),
    "mpijob-v1": WITHOUT_DEADLINE,
    "mpijob-v1alpha2": (),
    "plain": (),
    "tfjob": (*WITHOUT_MPI, "workers.replicas=8", "workers.gpus=1"),
}


@every_kind
def test_job_is_the_golden_one(helm: Path, kind: str) -> None:
    """Compare the whole manifest with the golden file.

    After an intended change, run `DISTRAIN_UPDATE_GOLDEN=1 make test-chart` and read the diff of the golden files.
    """
    changes = (*KINDS[kind], *GOLDEN_CHANGES.get(kind, WITHOUT_MPI))
    rendered = render(helm, "--values", str(GOLDEN / "values.yaml"), "--namespace", "team", *set_arguments(*changes))
    parts = [part for part in re.split(r"(?m)^---\n", rendered.text) if part]
    shown = [part for part in parts if "distrain_program.py: |" not in part and "helm.sh/hook:" not in part]
    manifest = GOLDEN_HEAD + "---\n".join(shown).replace(rendered.content, "<content>")

    if os.environ.get("DISTRAIN_UPDATE_GOLDEN"):
        (GOLDEN / f"{kind}.yaml").write_text(manifest, encoding="utf-8")

    assert parse(manifest) == parse((GOLDEN / f"{kind}.yaml").read_text(encoding="utf-8"))


def test_same_values_give_the_same_bytes(helm: Path) -> None:
    arguments = ("template", "run1", str(CHART), "--values", str(GOLDEN / "values.yaml"))

    first, second = run.__wrapped__(helm, *arguments), run.__wrapped__(helm, *arguments)

    assert first.returncode == 0
    assert first.stdout == second.stdout


@every_kind
def test_both_helms_render_the_same(helm3: Path, helm4: Path, kind: str) -> None:
    def by_name(rendered: Rendered) -> dict[tuple[str, str], Yaml]:
        return {(one["kind"], one["metadata"]["name"]): one for one in rendered.documents}

    three, four = (render_with(helm, KINDS[kind]) for helm in (helm3, helm4))

    assert by_name(three) == by_name(four)


def test_templates_depend_on_the_values_alone() -> None:
    templates = "".join(path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").rglob("*.*")))
    actions = " ".join(re.findall(r"\{\{(?!- /\*)(.*?)\}\}", templates, flags=re.DOTALL))
    words = set(re.findall(r"(?<![.\w$])[a-z]\w+", re.sub(r'"[^"]*"', "", actions)))

    assert {"include", "range", "fail"} <= words
    assert not words & {"lookup", "now", "date", "ago", "env", "expandenv", "uuidv4", "getHostByName", "bcrypt"}
    assert not [word for word in words if word.startswith(("rand", "gen", "htpasswd"))]


def test_lint_has_nothing_to_say(helm: Path) -> None:
    done = run(helm, "lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout
    assert not re.search(r"WARNING|ERROR", done.stdout)


@pytest.mark.parametrize("role", ROLES)
def test_termination_message_falls_back_to_the_log(helm: Path, role: str) -> None:
    container = render(helm).container(role)

    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_gpus_are_slots_and_limits_of_the_workers_alone(helm: Path) -> None:
    rendered = render(helm, *set_arguments("workers.gpus=4", "workers.gpuResource=amd.com/gpu"))

    assert rendered.job["spec"]["slotsPerWorker"] == 4
    assert rendered.container("Worker")["resources"] == {"limits": {"amd.com/gpu": 4}}
    assert "amd.com/gpu" not in str(rendered.container("Launcher"))


def test_without_gpus_a_worker_has_one_slot(helm: Path) -> None:
    rendered = render(helm, *set_arguments("workers.gpus=0"))

    assert rendered.job["spec"]["slotsPerWorker"] == 1
    # Without GPUs, the amount of CPU that a worker needs is unknown. So the worker gets a small CPU request and no
    # limit.
    assert rendered.container("Worker")["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}}


def test_memory_is_limited_and_cpu_is_not(helm: Path) -> None:
    rendered = render(helm, *set_arguments("workers.gpus=0", "workers.cpu=8", "workers.memory=16Gi"))

    assert rendered.container("Worker")["resources"] == {
        "requests": {"cpu": "8", "memory": "16Gi"},
        "limits": {"memory": "16Gi"},
    }


def test_lost_launcher_is_recreated_and_a_failed_one_keeps_its_log(helm: Path) -> None:
    spec = render(helm).job["spec"]

    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 3}
    assert spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "Never"


def test_run_policy_follows_the_values(helm: Path) -> None:
    values = set_arguments("job.maxRestarts=0", "job.activeDeadlineSeconds=86400", "job.cleanPodPolicy=None")

    spec = render(helm, *values).job["spec"]

    assert spec["runPolicy"] == {"cleanPodPolicy": "None", "backoffLimit": 0, "activeDeadlineSeconds": 86400}


@pytest.mark.parametrize(
    ("assignments", "image"),
    [
        pytest.param([], "distrain/tensorflow:0.1.0", id="default"),
        pytest.param(["image.repository=r.example.com:5000/tf"], "r.example.com:5000/tf:0.1.0", id="repository"),
        pytest.param(["image.tag=nightly"], "distrain/tensorflow:nightly", id="tag"),
        pytest.param(
            ["image.tag=nightly", f"image.digest=sha256:{64 * 'a'}"],
            f"distrain/tensorflow@sha256:{64 * 'a'}",
            id="digest-instead-of-tag",
        ),
    ],
)
def test_image(helm: Path, assignments: list[str], image: str) -> None:
    rendered = render(helm, *set_arguments(*assignments))

    assert [rendered.container(role)["image"] for role in ROLES] == [image, image]


def test_pull_secrets_are_named_in_both_pods(helm: Path) -> None:
    rendered = render(helm, *set_arguments("image.pullSecrets={login,other}"))

    assert [rendered.pod(role)["imagePullSecrets"] for role in ROLES] == 2 * [[{"name": "login"}, {"name": "other"}]]


def test_only_the_workers_mount_the_users_volumes(helm: Path) -> None:
    rendered = render(helm, "--values", str(GOLDEN / "values.yaml"))

    assert {"name": "scratch", "mountPath": "/scratch"} in rendered.container("Worker")["volumeMounts"]
    assert "scratch" not in str(rendered.pod("Launcher"))


def test_dev_shm_has_the_size_asked_for(helm: Path) -> None:
    rendered = render(helm, *set_arguments("workers.shm=8Gi"))

    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in rendered.pod("Worker")["volumes"]


@pytest.mark.parametrize(("memory", "size"), [("null", "1Gi"), ("512Mi", "512Mi"), ("1Gi", "1Gi"), ("1.5G", "1Gi")])
def test_dev_shm_is_by_default_no_larger_than_a_small_memory(helm: Path, memory: str, size: str) -> None:
    rendered = render(helm, *set_arguments(f"workers.memory={memory}"))

    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}} in rendered.pod("Worker")["volumes"]


def test_scripts_are_mounted_executable_and_unchanged(helm: Path) -> None:
    rendered = render(helm)
    modules = ("keepers", "memory", "message", "output", "program", "root", "sigterm", "watch", "workers")
    names = ("distrain-launch", "distrain-worker", *(f"distrain_{module}.py" for module in modules))
    files = {name: (CHART / "files" / name).read_text(encoding="utf-8") for name in names}

    assert rendered.scripts["data"] == files
    for role in ROLES:
        (volume,) = [volume for volume in rendered.pod(role)["volumes"] if volume["name"] == "scripts"]
        assert volume["configMap"] == {"name": rendered.scripts["metadata"]["name"], "defaultMode": 0o755}


def test_default_trains_100_steps_of_synthetic_data(helm: Path) -> None:
    program = render(helm).program

    assert program[:3] == ["python3", "-m", "distrain_trainer"]
    assert {"--steps=100", "--data=synthetic"} <= set(program)
    assert not [argument for argument in program if argument.startswith(("--epochs", "--output"))]


def test_trainer_gets_every_value(helm: Path) -> None:
    values = (
        "trainer.model=vgg16", "trainer.batchSize=64", "trainer.epochs=1500000", "trainer.precision=bf16",
        "trainer.optimizer=adam", "trainer.learningRate=1e-5", "trainer.warmup=500", "trainer.seed=4294967295",
        "trainer.logEvery=1", "trainer.extraArgs={--flag=a b}", "data.source=s3", "data.uri=s3://digits/idx",
        "output.uri=s3://results/runs/", "checkpoint.uri=s3://results/saved/", "checkpoint.every=600",
        "checkpoint.maxAge=900", "checkpoint.keep=5", "checkpoint.resume=never",
        "trainer.maxBadSteps=0", "trainer.tensorboard=true", "data.maxBadShare=0.01",
        "data.cache.folder=/cache", "data.cache.size=1.5Gi", "volumes[0].name=disk", "volumeMounts[0].name=disk",
        "volumeMounts[0].mountPath=/cache",
    )  # fmt: skip

    program = render(helm, *set_arguments(*values), "--namespace", "team").program

    assert program == [
        "python3", "-m", "distrain_trainer", "--framework=tensorflow", "--strategy=allreduce", "--model=vgg16",
        "--batch-size=64", "--epochs=1500000", "--precision=bf16", "--optimizer=adam", "--learning-rate=1e-05",
        "--warmup=500", "--seed=4294967295", "--log-every=1", "--data=s3://digits/idx", "--output=s3://results/runs/team/run1",
        "--checkpoint=s3://results/saved/team/run1", "--checkpoint-every=600", "--checkpoint-max-age=900",
        "--checkpoint-keep=5", "--checkpoint-at-end", "--resume=never", "--max-bad-steps=0", "--max-bad-share=0.01",
        "--cache=/cache", "--cache-size=1610612736", "--tensorboard", "--flag=a b",
    ]  # fmt: skip


def test_default_that_an_older_chart_did_not_have_is_left_to_the_trainer(helm: Path) -> None:
    # A different content hash would make an upgrade of only the chart replace the running jobs.
    program = render(helm, "--set", "checkpoint.maxAge=1800").program

    assert not [
        argument for argument in program if argument.startswith(("--checkpoint-max-age", "--max-bad", "--cache"))
    ]


def test_last_state_is_saved_where_it_outlives_the_pods(helm: Path) -> None:
    assert "--checkpoint-at-end" not in render(helm).program
    assert "--checkpoint-at-end" in render(helm, "--set", "checkpoint.uri=s3://results/saved").program


def test_large_numbers_of_a_values_file_stay_whole(helm: Path, tmp_path: Path) -> None:
    # Helm reads every number as a float. Without a conversion, it would print 1500000 as 1.5e+06.
    values = tmp_path / "values.yaml"
    values.write_text("trainer: {steps: 1500000, extraArgs: [3000000, 0.5]}\nmpi: {mca: {btl_tcp_sndbuf: 4194304}}\n")

    rendered = render(helm, "--values", str(values))

    assert "--steps=1500000" in rendered.program
    assert rendered.program[-2:] == ["3000000", "0.5"]
    assert "4194304" in rendered.mpirun


def test_own_command_replaces_the_trainer(helm: Path) -> None:
    rendered = render(helm, *set_arguments("command={python3,/work/train.py,--text=a b,--epochs,10}", "data.source=s3"))

    assert rendered.program == ["python3", "/work/train.py", "--text=a b", "--epochs", "10"]


def test_only_the_trainers_ranks_are_ended_without_a_wait(helm: Path) -> None:
    patience = "odls_base_sigkill_timeout"

    trainers = render(helm).mpirun
    asked_for = render(helm, *set_arguments(f"mpi.mca.{patience}=5")).mpirun

    assert trainers[trainers.index(patience) - 1 :][:3] == ["--mca", patience, "0"]
    assert asked_for[asked_for.index(patience) - 1 :][:3] == ["--mca", patience, "5"]
    for without in ("command={python3,/work/train.py}", f"mpi.mca.{patience}=null", "mpi.mca=null"):
        assert patience not in render(helm, *set_arguments(without)).mpirun


def test_mca_key_set_to_null_is_dropped(helm: Path) -> None:
    defaults = render(helm).mpirun

    changes = ("mpi.mca.btl=null", "mpi.mca.not_a_default=null", "mpi.mca.btl_base_verbose=10")
    changed = render(helm, *set_arguments(*changes)).mpirun

    assert defaults[defaults.index("btl") - 1 :][:3] == ["--mca", "btl", "^openib"]
    assert not {"btl", "not_a_default"} & set(changed)
    assert changed[changed.index("btl_base_verbose") - 1 :][:3] == ["--mca", "btl_base_verbose", "10"]


@pytest.mark.parametrize("role", ROLES)
def test_mpi_env_and_env_reach_the_pods(helm: Path, tmp_path: Path, role: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        """mpi: {env: {NCCL_DEBUG: INFO, FLAG: true, GONE: null}}\nenv: [{name: TEXT, value: "a\\n  b"}]\n"""
    )

    env = render(helm, "--values", str(values)).env(role)

    assert list(env.values()) == [
        {"name": "FLAG", "value": "true"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "TEXT", "value": "a\n  b"},
    ]


S3_RUN = ["data.source=s3", "data.uri=s3://digits"]


@pytest.mark.parametrize("role", ROLES)
def test_s3_keys_come_from_the_secret(helm: Path, role: str) -> None:
    values = [*S3_RUN, "s3.secretName=keys", "s3.endpoint=https://s3.example.com", "s3.insecureTLS=true"]

    env = render(helm, *set_arguments(*values)).env(role)

    assert env["AWS_ENDPOINT_URL_S3"]["value"] == "https://s3.example.com"
    assert env["AWS_REGION"]["value"] == "us-east-1"
    assert env["DISTRAIN_S3_INSECURE_TLS"]["value"] == "1"
    keys = {name: variable["valueFrom"]["secretKeyRef"] for name, variable in env.items() if "valueFrom" in variable}
    assert keys == {
        "AWS_ACCESS_KEY_ID": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"},
        "AWS_SECRET_ACCESS_KEY": {"name": "keys", "key": "AWS_SECRET_ACCESS_KEY"},
        "AWS_SESSION_TOKEN": {"name": "keys", "key": "AWS_SESSION_TOKEN", "optional": True},
    }


def test_without_a_secret_the_pods_find_their_own_s3_credentials(helm: Path) -> None:
    env = render(helm, *set_arguments(*S3_RUN)).env("Worker")

    assert set(env) == {"AWS_REGION"}


def test_run_without_s3_has_no_s3_environment(helm: Path) -> None:
    env = render(helm).env("Worker")

    assert env == {}
