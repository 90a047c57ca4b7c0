"""Test importing FfDL manifests, ksonnet parameters of openmpi, and values of the chart stable/horovod."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.identify import ARENA, FFDL, HOROVOD, KSONNET, SLURM, find_job, text_of
from distrain.imports.jobs.pod import PROCESSES
from distrain.imports.values_file import written
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, rendered
from tests.plugin.imports.drafts import FILE
from tests.plugin.imports.other_formats.other_sources import FOLDER, draft_of, refusal_of
from tests.plugin.imports.random_jobs import mutated

NAMES = sorted(path.name for path in FOLDER.iterdir())
SECRETS = (
    "s3-login-of-the-team",
    "s3-password-of-the-team",
    "t0psecret99",
    "PRIVATE KEY",
    "bm90IGEga2V5",
    "0123abcd0123",
)


@pytest.fixture(scope="module")
def drafts() -> dict[str, Draft]:
    return {name: draft_of((FOLDER / name).read_text()) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_values_render_and_hold_no_credential(drafts: dict[str, Draft], name: str) -> None:
    draft = drafts[name]

    text = written(draft, name, "run.yaml", DEFAULTS, SCHEMA)

    assert not rendered(yaml.safe_load(text)).get("error")
    told = [text, *draft.notes, *(f"{place}: {why}" for place, why in draft.lost)]
    assert [secret for secret in SECRETS if any(secret in each for each in told)] == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ffdl-mnist.yml", FFDL),
        ("openmpi.sh", KSONNET),
        ("params.libsonnet", KSONNET),
        ("horovod-values.yaml", HOROVOD),
        ("slurm-mpirun.sbatch", SLURM),
        ("arena-mpi.sh", ARENA),
    ],
)
def test_format_is_told_from_the_content(name: str, known: str) -> None:
    assert find_job((FOLDER / name).read_text(), FILE).format == known


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_of_windows_make_no_difference(drafts: dict[str, Draft], name: str) -> None:
    content = (FOLDER / name).read_bytes()

    draft = draft_of(text_of(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), FILE))

    expected = drafts[name]
    assert (draft.settings, draft.notes, draft.lost) == (expected.settings, expected.notes, expected.lost)


def test_ffdl_manifest_names_its_buckets_and_the_secret(drafts: dict[str, Draft]) -> None:
    values = drafts["ffdl-mnist.yml"].values()

    assert values["data"]["uri"] == "s3://digits"
    assert values["output"]["uri"] == "s3://trained-models"
    assert values["s3"] == {
        "endpoint": "http://s3.default.svc.cluster.local",
        "region": "eu-de",
        "secretName": "digits-with-tensorflow-s3",
    }
    assert drafts["ffdl-mnist.yml"].credentials.keys == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    assert values["workers"] == {"replicas": 2, "gpus": 0, "cpu": 0.5, "memory": "1G"}
    assert [place for place, _ in drafts["ffdl-mnist.yml"].lost] == ["description", "version", "evaluation_metrics"]


def test_ffdl_manifest_of_horovod_with_pytorch_is_an_mpi_job_with_ffdls_defaults(drafts: dict[str, Draft]) -> None:
    values = drafts["ffdl-horovod-mounted.yml"].values()

    assert (values["framework"], values["job"]) == ("pytorch", {"kind": "MPIJob"})
    assert values["workers"] == {"replicas": 3, "gpus": 2, "cpu": 8, "memory": "16Gi"}
    assert values["volumes"] == [{"name": "data", "hostPath": {"path": "/cosdata"}}]
    assert values["data"]["uri"] == "/cosdata/digits"


def test_ffdl_framework_has_its_own_origin_and_the_parts_of_its_image_are_listed() -> None:
    location = {"registry": "r", "access_token": "t"}
    framework = {"name": "horovod", "version": "1", "command": "python a.py", "image_location": location}

    draft = draft_of(yaml_writer.dump({"framework": framework}), is_judged=False)

    assert draft.settings["framework",].origins == ("framework.name: horovod; nothing names another",)
    assert dict(draft.lost) == {
        "framework.image_location.registry": "set image.repository",
        "framework.image_location.access_token": "name a Secret in image.pullSecrets",
    }


def test_framework_of_a_slurm_script_has_the_word_that_names_it_or_none() -> None:
    scripts = ("srun python -m torch.a", "srun python a.py")

    origins = [draft_of(f"#!/bin/sh\n#SBATCH -N 2\n{line}").settings["framework",].origins for line in scripts]

    assert origins == [('"torch" in the script',), ("nothing names the framework",)]


@pytest.mark.parametrize(
    ("amount", "memory"),
    [("1Gb", "1G"), ("512MB", "512M"), ("2GiB", "2Gi"), ("16 Gb", "16G"), ("1G", "1G"), ("4Gi", "4Gi"), (1024, "1024")],
)
def test_ffdl_amount_of_memory_is_written_as_kubernetes_does(amount: Any, memory: str) -> None:
    manifest = {"memory": amount, "framework": {"name": "pytorch", "command": "python a.py"}}

    assert draft_of(yaml_writer.dump(manifest), is_judged=False).values()["workers"]["memory"] == memory


def test_ksonnet_line_becomes_a_plain_job(drafts: dict[str, Draft]) -> None:
    draft = drafts["openmpi.sh"]

    values = draft.values()

    assert values["job"] == {"kind": "Plain"}
    assert values["image"] == {"repository": "registry.example.com/vgg16", "tag": "2"}
    assert values["command"] == ["python", "tf_cnn_benchmarks.py", "--model", "vgg16"]
    assert values["workers"] == {
        "replicas": 4,
        "gpus": 8,
        "cpu": 32,
        "memory": "200Gi",
        "resources": {"limits": {"cpu": 32, "example.com/nic": 2}},
        "nodeSelector": {"pool": "gpu", "zone": "a"},
    }
    assert values["ssh"] == {"secretName": "openmpi-secret"}
    assert values["schedulerName"] == "bin-packing"
    assert values["mpi"]["env"] == {"NCCL_MIN_NRINGS": "8"}
    assert not [note for note in draft.notes if "ranks" in note]


def test_ksonnet_block_is_read_without_its_comments_and_other_components(drafts: dict[str, Draft]) -> None:
    draft = drafts["params.libsonnet"]

    values = draft.values()

    assert values["launcher"]["workersTimeout"] == 600
    assert values["podSpec"] == {"hostNetwork": True}
    assert values["command"][-2:] == ["--api-key", "$(API_KEY)"]
    assert [place for place, _ in draft.lost] == [
        "init",
        "controllerImage",
        "downloadDataFrom",
        "components.kubeflow-core",
    ]


def test_values_of_the_horovod_chart_become_a_plain_job_without_its_keys(drafts: dict[str, Draft]) -> None:
    draft = drafts["horovod-values.yaml"]

    values = draft.values()

    assert values["workers"]["replicas"] == 3
    assert values["workers"]["gpus"] == 1
    assert values["ssh"] == {"port": 32222}
    assert [place for place, _ in draft.lost][:3] == ["ssh.useSecrets", "ssh.hostKey", "ssh.hostKeyPub"]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("on_network", [True, False])
def test_process_ids_of_the_node_are_left_out(on: bool, on_network: bool) -> None:
    flags = f"--hostPID={str(on).lower()} --hostNetwork={str(on_network).lower()}"
    line = f"arena submit mpijob --name=a --image=b {flags} 'mpirun python a.py'"
    values = f"{{useHostPID: {on}, useHostNetwork: {on_network}, master: {{args: [mpirun python a.py]}}}}"

    found = [draft_of(line), draft_of(values)]

    for draft, key in zip(found, ("hostPID", "useHostPID"), strict=True):
        assert [why for place, why in draft.lost if place == key] == [PROCESSES] * on
        assert draft.values().get("podSpec") == ({"hostNetwork": True} if on_network else None)
        assert draft.values()["podSecurity"] == ("privileged" if on_network else "baseline")


def test_command_line_of_arena_becomes_an_mpi_job(drafts: dict[str, Draft]) -> None:
    draft = drafts["arena-mpi.sh"]

    values = draft.values()

    assert values["command"] == ["sh", "-c", "cd /root && exec python code/train.py --num_batches=100"]
    assert values["workers"]["replicas"] == 3
    assert values["workers"]["gpus"] == 2
    assert values["job"] == {"cleanPodPolicy": "None"}
    assert values["tolerations"] == [
        {"operator": "Equal", "key": "gpu", "value": "true", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    assert [place for place, _ in draft.lost] == ["sync-mode", "sync-source", "tensorboard", "logdir", "gang"]


def test_command_line_of_arena_becomes_a_pytorch_job(drafts: dict[str, Draft]) -> None:
    values = drafts["arena-pytorch.sh"].values()

    assert values["job"] == {"elastic": False, "maxRestarts": 2, "cleanPodPolicy": "All"}
    assert values["workers"] == {"replicas": 2, "gpus": 1, "shm": "2Gi"}
    assert values["volumes"] == [{"name": "folder-0", "hostPath": {"path": "/mnt/set"}}]
    assert (values["podSpec"], values["podSecurity"]) == ({"hostNetwork": True}, "privileged")


def test_arenas_shell_runs_the_program_and_its_words_are_joined() -> None:
    draft = draft_of("arena submit pytorch --image a/b:1 --shell bash -- source /x/env.sh '&&' python a.py")

    assert draft.values()["command"] == ["bash", "-c", "cd /root && source /x/env.sh && python a.py"]


def test_roles_of_arenas_tfjob_have_their_own_amounts_and_the_workers_image() -> None:
    flags = "--image tf:0 --worker-image tf:1 --ps 2 --ps-cpu 2 --ps-memory 4Gi --chief-cpu 1 --ps-selector pool=cpu"

    draft = draft_of(f"arena submit tfjob {flags} --worker-cpu 4 --worker-cpu-limit 8 'python a.py'")

    values = draft.values()
    assert values["image"] == {"repository": "tf", "tag": "1"}
    assert values["servers"] == {
        "replicas": 2,
        "cpu": 2,
        "memory": "4Gi",
        "resources": {"limits": {"cpu": 2}},
        "nodeSelector": {"pool": "cpu"},
    }
    assert values["launcher"]["cpu"] == 1
    assert (values["workers"]["cpu"], values["workers"]["resources"]) == (4, {"limits": {"cpu": 8}})
    assert [place for place, _ in draft.lost] == ["image"]


@pytest.mark.parametrize(
    ("flag", "target"),
    [
        ("--psCPU 2", ("servers", "cpu")),
        ("--psMemory=4Gi", ("servers", "memory")),
        ("--ps-cpu 2", ("servers", "cpu")),
        ("--workerCPU 2", ("workers", "cpu")),
        ("--psGPUs 1", ("servers", "resources", "limits", "nvidia.com/gpu")),
    ],
)
def test_older_name_of_a_flag_of_arena_is_read(flag: str, target: tuple[str, ...]) -> None:
    assert target in draft_of(f"arena submit tf --image a/b:1 --ps 1 {flag} 'python a.py'", is_judged=False).settings


def test_flag_of_arena_that_a_later_one_overrides_is_listed() -> None:
    draft = draft_of("arena submit mpi --image a/b:1 --gpus 1 --gpus 2 -e A=1 -e B=2 'python a.py'", is_judged=False)

    assert draft.value(("workers", "gpus")) == 2
    assert [place for place, _ in draft.lost] == ["--gpus"]


def test_unknown_flag_of_arena_is_listed_as_it_is_written() -> None:
    draft = draft_of("arena submit tf --image a/b:1 --someIOFlag x --psQPS=3 'python a.py'", is_judged=False)

    assert [place for place, _ in draft.lost] == ["someIOFlag", "psQPS"]


def test_claim_of_arena_may_be_read_only_and_a_later_one_of_its_name_counts() -> None:
    draft = draft_of("arena submit mpi --image a/b:1 -d set:/a -d set:/set:ro -d more:/more:sub 'mpirun python a.py'")

    assert draft.values()["volumeMounts"] == [
        {"name": "data-1", "mountPath": "/set", "readOnly": True},
        {"name": "data-2", "mountPath": "/more"},
    ]
    assert [place for place, _ in draft.lost] == ["data[0]", "data more:/more:sub: sub"]


def test_number_of_gpus_of_arena_that_is_not_whole_is_refused() -> None:
    with pytest.raises(ValuesError, match=r"job\.yaml: gpus: is 2x, but the GPUs of a worker must be a whole number"):
        draft_of("arena submit mpi --image a/b:1 --gpus 2x 'mpirun python a.py'")


def test_flag_of_a_ksonnet_line_that_a_later_one_overrides_is_listed() -> None:
    draft = draft_of("ks generate openmpi a --image b/c:1 --image b/d:2 --exec 'mpirun -np 2 a'", is_judged=False)

    assert draft.value(("image", "repository")) == "b/d"
    assert [place for place, _ in draft.lost] == ["--image"]


def test_volumes_of_a_ksonnet_line_are_json() -> None:
    volumes, mounts = ('[{"name": "v", "configMap": {"name": "c"}}]', '[{"name": "v", "mountPath": "/v"}]')

    draft = draft_of(
        f"ks generate openmpi a --image b/c:1 --volumes '{volumes}' --volumeMounts '{mounts}' --exec 'a b'"
    )

    assert draft.values()["volumes"] == [{"name": "v", "configMap": {"name": "c"}}]
    assert draft.values()["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "framework: {name: caffe, command: a}",
            "framework.name: is caffe, and distrain runs tensorflow, horovod, pytorch",
        ),
        ("framework: {name: pytorch}", "framework.command: is missing; write the program of the learners there"),
        (
            "learners: 1.5\nframework: {name: pytorch, command: a}",
            "learners: is 1.5, but must be a whole number",
        ),
        ("worker: {number: 3}", "master.args: is missing, so the master runs nothing"),
        ("worker: {number: x}\nmaster: {args: [a]}", "worker.number: is 'x', but must be a whole number"),
        ("ks generate openmpi a --secret b", "image: is missing; name the image there"),
        ("ks generate openmpi a\nks generate openmpi b", "has 2 lines `ks generate openmpi`; only one"),
        ("ks generate openmpi 'a", "contains an unclosed quote"),
        ("#!/bin/sh\n#SBATCH --array=0-9\n#SBATCH -N 1\na", "#SBATCH --array: makes many jobs of one script"),
        ("#!/bin/sh\n#SBATCH -a 1-3\na", "#SBATCH --array: makes many jobs of one script; import a script of one job"),
        ("#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 8\na", "#SBATCH hetjob: makes several groups of nodes"),
        (
            "#!/bin/sh\n#SBATCH -N 2 --gpus=5\na",
            "#SBATCH --gpus: is 5, so the GPUs of each of 2 nodes would not be a whole number",
        ),
        ("#!/bin/sh\n#SBATCH -N 4 -G 2\na", "#SBATCH --gpus: is 2, so the GPUs of each of 4 nodes would not be"),
        ("#!/bin/sh\n#SBATCH -N 2 -n 7 --gpus-per-task=1\na", "--gpus-per-task: is 1, so the GPUs of each of 2 nodes"),
        ("#!/bin/sh\n#SBATCH --nodes=all\na", "line 2: #SBATCH --nodes: is all, but must be a whole number above 0"),
        ("#!/bin/sh\n#SBATCH -J 'a\na", "has a quote that is not closed; close it"),
        ("arena submit mpijob --gpus=1 'python a.py'", "arena submit: --image is missing; add it"),
        ("arena submit mpijob --image=a", "arena submit: the program, in quotes at the end, is missing; add it"),
        ("arena submit sparkjob --image=a b", "arena submit sparkjob: cannot be imported; use one of mpijob, mpi"),
        ("arena submit tf --image=a --workers=x b", "--workers: is x, but must be a whole number; correct it"),
        ("{components: {a: {b: 1}}}", "components: found a; keep only the component of `ks generate openmpi`"),
        (
            "{components: {a: {image: 'b' + c, secret: 'd'}}}",
            "; Jsonnet code cannot be read: write out the values",
        ),
    ],
)
def test_source_that_names_no_run_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        draft_of(text, is_judged=False)

    assert refusal.value.messages[0].startswith(f"{FILE}: ")
    assert words in refusal.value.messages[0]


@pytest.mark.parametrize("name", ["ffdl-mnist.yml", "ffdl-horovod-mounted.yml", "horovod-values.yaml"])
def test_odd_source_is_read_or_refused(name: str) -> None:
    source = yaml.safe_load((FOLDER / name).read_text())

    refusals = [refusal_of(yaml_writer.dump(mutated(source, seed))) for seed in range(150)]

    assert [each for each in refusals if each and not each.startswith(f"{FILE}: ")] == []
    assert any(refusals)
    assert not all(refusals)


@pytest.mark.parametrize("name", ["openmpi.sh", "params.libsonnet", "slurm-torchrun.sbatch", "arena-mpi.sh"])
def test_cut_parameters_are_read_or_refused(name: str) -> None:
    chance, text = random.Random(1), (FOLDER / name).read_text()
    starts = [chance.randrange(len(text)) for _ in range(100)]

    refusals = [refusal_of(text[:start] + text[start + chance.randrange(1, 80) :]) for start in starts]

    assert [each for each in refusals if each and not each.startswith(f"{FILE}: ")] == []
    assert not all(refusals)
