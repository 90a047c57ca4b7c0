"""Test that `init` writes a values file that fits the cluster, names the nodes, and overwrites no file."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from lab.paths import CHART
from schemas import build
from tests.matrix import one_of
from tests.plugin.fake_api import FakeApi, releases
from tests.plugin.objects import Object, node, tainted
from tests.plugin.program import SECRETS, Run, hold

MODELS = ("resnet50", "mnist", "vgg16", "mine:net")
# Maps a framework to every kind of job that the chart allows for it, with the job's strategy.
KINDS = {
    "tensorflow": ("MPIJob", "Plain", "TFJob"),
    "pytorch": ("PyTorchJob", "MPIJob", "Plain"),
    "mxnet": ("MPIJob", "Plain", "MXJob"),
}
FRAMEWORKS = ("tensorflow", "pytorch", "mxnet")
# Every image that docs/images.md names, in the form in which a node's status lists it.
IMAGES = [f"docker.io/distrain/{name}{kind}:0.1.0" for name in FRAMEWORKS for kind in ("", "-cuda")]
ALL_SERVED = {"v1": ("PyTorchJob", "TFJob", "MXJob"), "v2beta1": ("MPIJob",)}


@pytest.fixture
def helm(helm4: Path) -> Path:
    """Run these tests with only one version of Helm, because `init` calls few commands of Helm."""
    return helm4


def _with_images(base: Object, *names: str) -> Object:
    """Return the node with a list of images. Each image is listed with its tag and with its digest."""
    images = [{"names": [f"{name.rpartition(':')[0]}@sha256:{'0' * 64}", name]} for name in names]
    return {**base, "status": {**base["status"], "images": [*images, {}]}}


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve a cluster with every operator and two nodes, and set KUBECONFIG for it.

    Each node has 8 GPUs and all images.
    """
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    api.serve_group("kubeflow.org", ALL_SERVED)
    hold(api, [_with_images(node(name, gpu="8"), *IMAGES) for name in "ab"])
    return api


@pytest.mark.parametrize("model", one_of(MODELS))
@pytest.mark.parametrize(
    ("framework", "kind"), [(framework, kind) for framework, kinds in KINDS.items() for kind in kinds]
)
def test_file_passes_lint_and_check(
    run: Run, cluster: FakeApi, helm4: Path, tmp_path: Path, framework: str, kind: str, model: str
) -> None:
    strategy = "parameter-server" if kind in ("TFJob", "MXJob") else "allreduce"
    file = tmp_path / "run.yaml"

    made = run(
        *("init", "--framework", framework, "--model", model, "--kind", kind, "--strategy", strategy),
        *("--gpus", "8", "-o", str(file), "--data", "synthetic"),
    )

    assert (made.code, made.out) == (0, "")
    judge = f"`helm distrain check -f {file} --namespace team`"
    assert made.err.endswith(f"distrain: wrote {file}; {judge} says whether it fits\n")
    linted = subprocess.run([helm4, "lint", "--strict", CHART, "-f", file], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    assert run("derive", "-f", str(file), "--check").out == "derived values are up to date\n"
    checked = run("check", "-f", str(file))
    assert (checked.code, checked.out.partition(":")[0]) == (0, "fits")


@pytest.mark.parametrize(
    ("served", "arguments", "expected"),
    [
        pytest.param(ALL_SERVED, [], ("tensorflow", None), id="all"),
        pytest.param({"v1": ("PyTorchJob",)}, [], ("pytorch", None), id="pytorch-alone"),
        pytest.param({"v2beta1": ("MPIJob",)}, ["--framework", "pytorch"], ("pytorch", "MPIJob"), id="horovod"),
        pytest.param({}, [], ("tensorflow", "Plain"), id="no-operator"),
        pytest.param({}, ["--framework", "mxnet"], ("mxnet", "Plain"), id="mxnet-without-operator"),
    ],
)
def test_kind_is_one_that_the_cluster_runs(
    run: Run,
    cluster: FakeApi,
    served: dict[str, tuple[str, ...]],
    arguments: list[str],
    expected: tuple[str, str | None],
) -> None:
    for path in [path for path in cluster.answers if path.startswith("/apis/kubeflow.org")]:
        del cluster.answers[path]
    if served:
        cluster.serve_group("kubeflow.org", served)

    values = run("init", *arguments).values

    assert (values["framework"], values.get("job", {}).get("kind")) == expected


def test_kind_that_the_cluster_lacks_is_refused(run: Run, cluster: FakeApi) -> None:
    cluster.serve_group("kubeflow.org", {"v2beta1": ("MPIJob",)})

    outcome = run("init", "--framework", "tensorflow", "--strategy", "parameter-server")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        "distrain: job.kind: this cluster does not serve TFJob; install the training-operator"
    )


@pytest.mark.parametrize(
    ("nodes", "workers"),
    [
        pytest.param([node("a", gpu="4"), node("b", gpu="4"), node("c", gpu="2")], (8, 2, 4), id="two-of-the-largest"),
        pytest.param([node("a", gpu="8"), node("b", gpu="2")], (8, 1, 8), id="the-one-there-is"),
        pytest.param([node("a", gpu="8"), node("b", gpu="8", cordoned=True)], (8, 1, 8), id="less-a-cordoned-one"),
        pytest.param([node("a"), node("b")], (0, None, 0), id="no-gpus"),
    ],
)
def test_size_is_that_of_the_clusters_nodes(
    run: Run, cluster: FakeApi, nodes: list[Object], workers: tuple[int, int | None, int], tmp_path: Path
) -> None:
    hold(cluster, nodes)

    outcome = run("init", "--image", "registry.example.com/mine")

    values = outcome.values
    assert (values["gpus"], values["workers"].get("replicas"), values["workers"]["gpus"]) == workers
    assert outcome.err.endswith(f"chosen: framework tensorflow, model resnet50, {workers[0]} GPUs\n")
    file = tmp_path / "run.yaml"
    file.write_text(outcome.out)
    assert run("check", "-f", str(file)).code == 0


def test_gpu_resource_and_taints_about_gpus_are_the_nodes(run: Run, cluster: FakeApi) -> None:
    amd = {"amd.com/gpu": "4"}
    own = [tainted(node(name, amd), "amd.com/gpu=present:NoExecute") for name in "ab"]
    others = tainted(node("c", amd), "amd.com/gpu=present:NoExecute", "dedicated=team-b:NoSchedule")
    hold(cluster, [*own, others, node("d", gpu="1")])

    outcome = run("init")

    workers = outcome.values["workers"]
    assert (workers["gpuResource"], workers["replicas"], workers["gpus"]) == ("amd.com/gpu", 2, 4)
    assert workers["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists", "effect": "NoExecute"}]
    assert (
        "GPU nodes with the taint dedicated:NoSchedule are left out; if the run may use them, add the taint to"
    ) in outcome.err


def test_taint_of_all_gpu_nodes_is_tolerated(run: Run, cluster: FakeApi) -> None:
    tainted_nodes = [tainted(node(name, gpu="4"), "dedicated=training:NoSchedule") for name in "ab"]
    hold(cluster, [*tainted_nodes, node("for-the-launcher")])

    workers = run("init").values["workers"]

    assert workers["replicas"] == 2
    assert workers["tolerations"] == [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]


def test_total_that_does_not_fit_the_nodes_is_refused(run: Run, cluster: FakeApi) -> None:
    outcome = run("init", "--gpus", "32")

    assert (outcome.code, outcome.out) == (2, "")
    words = "gpus: workers with 32 GPUs in total do not fit: no node has more than 8 GPUs; set gpus to"
    assert words in outcome.err


PLACEHOLDER = (
    "distrain: no --image was given; replace the placeholder in image.repository, which `helm distrain check` refuses"
)
ASSUMED = "distrain: workers.cpu, workers.memory: 3 CPUs and 12Gi for each GPU are assumed; correct them for your nodes"


@pytest.mark.parametrize(
    ("arguments", "amounts"),
    [
        pytest.param(["--gpus", "16", "--node-gpus", "8"], (24, "96Gi"), id="eight"),
        pytest.param(["--gpus", "1", "--node-gpus", "8"], (3, "12Gi"), id="one"),
        pytest.param(["--gpus", "0", "--node-gpus", "8"], (None, None), id="none"),
    ],
)
def test_cpu_and_memory_are_sized_by_the_gpus(run: Run, arguments: list[str], amounts: tuple[object, object]) -> None:
    workers = run("init", *arguments).workers

    assert (workers.get("cpu"), workers.get("memory")) == amounts


@pytest.mark.parametrize(
    ("held", "arguments", "image", "told"),
    [
        pytest.param(
            [["docker.io/distrain/tensorflow-cuda:0.1.0"]] * 2, [], {"repository": "distrain/tensorflow-cuda"},
            "image: distrain/tensorflow-cuda, already on 2 of 2 nodes\n", id="ours",
        ),
        pytest.param(
            [["reg:5000/a/distrain/pytorch:2", "reg:5000/a/distrain/pytorch:1"], ["reg:5000/a/distrain/pytorch:1"]],
            ["--framework", "pytorch", "--gpus", "0"], {"repository": "reg:5000/a/distrain/pytorch", "tag": "1"},
            "image: reg:5000/a/distrain/pytorch:1, already on 2 of 2 nodes\n", id="registry",
        ),
        pytest.param(
            [["r.io/distrain/tensorflow-cuda:0.1.0"], ["r.io/distrain/tensorflow-cuda:9"]], [],
            {"repository": "r.io/distrain/tensorflow-cuda"},
            "image: r.io/distrain/tensorflow-cuda, already on 1 of 2 nodes; the other nodes have to pull "
                "it\n", id="one",
        ),
        pytest.param(
            [["docker.io/distrain/tensorflow:0.1.0", "docker.io/other/tensorflow-cuda:0.1.0"], []], [],
            {"repository": "registry.invalid/distrain/tensorflow-cuda"},
            "no --image was given, and no node has distrain/tensorflow-cuda, the trainer's image for GPUs; replace "
            "the placeholder in image.repository", id="no-cuda",
        ),
        pytest.param(
            [["docker.io/distrain/tensorflow-cuda:0.1.0"], []], ["--gpus", "0"],
            {"repository": "registry.invalid/distrain/tensorflow"},
            "no --image was given, and no node has distrain/tensorflow, the trainer's image for CPUs; ", id="no-cpu",
        ),
    ],
)  # fmt: skip
def test_image_is_one_that_the_nodes_have(
    run: Run, cluster: FakeApi, held: list[list[str]], arguments: list[str], image: dict[str, str], told: str
) -> None:
    hold(cluster, [_with_images(node(name, gpu="8"), *names) for name, names in zip("ab", held, strict=True)])

    outcome = run("init", *arguments)

    assert outcome.values["image"] == image
    assert f"distrain: {told}" in outcome.err


@pytest.mark.parametrize("command", [["check"], ["install", "run1"], ["template", "run1"]], ids=lambda words: words[0])
def test_placeholder_is_refused_by_name(run: Run, cluster: FakeApi, tmp_path: Path, command: list[str]) -> None:
    hold(cluster, [node("a", gpu="8")])
    cluster.answers[SECRETS] = releases()
    file = tmp_path / "run.yaml"
    assert run("init", "-o", str(file)).code == 0

    outcome = run(*command, "-f", str(file))

    words = (
        "is a placeholder written by `helm distrain init`; name the image in your registry (docs/images.md "
        "says how to build"
    )
    image = "registry.invalid/distrain/tensorflow-cuda"
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f'distrain: image.repository: "{image}" {words} it)\n'


def test_mnist_without_data_is_refused(run: Run) -> None:
    outcome = run("init", "--node-gpus", "8", "--model", "mnist")

    words = "--data: is missing: mnist needs images of digits; name their bucket or folder (docs/data.md), or"
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"distrain: {words} --data synthetic, which only measures speed\n"


def test_without_a_cluster_it_says_what_it_assumes(run: Run) -> None:
    outcome = run("init", "--framework", "pytorch", "--model", "vgg16", "--gpus", "16", "--data", "s3://bucket/images")

    assert outcome.code == 0
    first, *more = outcome.err.splitlines()
    assert first.startswith("distrain: no cluster can be read (KUBECONFIG: there is no file ")
    assert first.endswith(
        "nodes of 8 GPUs and an operator for the job are assumed; add --node-gpus N, the GPUs of a node"
    )
    assert more == [PLACEHOLDER, ASSUMED]
    assert (outcome.values["workers"]["replicas"], outcome.values["workers"]["gpus"]) == (2, 8)


def test_stated_nodes_ask_no_cluster(run: Run, cluster: FakeApi) -> None:
    outcome = run(
        *("init", "--gpus", "8", "--node-gpus", "4", "--framework", "mxnet", "--model", "mnist"),
        *("--data", "s3://bucket/digits"),
    )

    assert (outcome.err.splitlines(), cluster.requests) == ([PLACEHOLDER, ASSUMED], [])
    assert (outcome.values["workers"]["replicas"], outcome.values["workers"]["gpus"]) == (2, 4)


def test_the_same_question_gets_the_same_bytes(run: Run, cluster: FakeApi) -> None:
    assert run("init").out == run("init").out


def test_comments_are_those_of_the_chart_else_of_the_schema(run: Run) -> None:
    lines = run("init", "--node-gpus", "8", "--data", "/data").out.split("\n")

    above = {line.strip(): before.strip() for before, line in pairwise(lines)}
    assert above["model: resnet50"].startswith("# function(shape, classes), which has to return the network ")
    assert above["model: resnet50"] in (CHART / "values.yaml").read_text()
    description = build.read()["properties"]["workers"]["properties"]["tolerations"]["description"]
    assert above["tolerations:"] == f"# {description}"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("reg:5000/a/b:1.2", {"repository": "reg:5000/a/b", "tag": "1.2"}, id="port-and-tag"),
        pytest.param("reg:5000/a/b", {"repository": "reg:5000/a/b"}, id="port-alone"),
        pytest.param(f"a@sha256:{'0' * 64}", {"repository": "a", "digest": f"sha256:{'0' * 64}"}, id="digest"),
        pytest.param("", {"repository": "registry.invalid/distrain/pytorch-cuda"}, id="none"),
    ],
)
def test_image_is_split_into_its_parts(run: Run, image: str, expected: dict[str, str]) -> None:
    made = run("init", "--node-gpus", "8", "--framework", "pytorch", *(["--image", image] if image else []))

    assert made.values["image"] == expected
    assert ("# CHANGE: the image" in made.out) == (not image)


def test_data_in_s3_brings_its_secret(run: Run) -> None:
    made = run("init", "--node-gpus", "8", "--data", "s3://bucket/images")

    values = made.values
    assert values["data"] == {"uri": "s3://bucket/images"}
    assert f"#   kubectl create secret generic {values['s3']['secretName']} \\" in made.out
    assert (values["trainer"]["epochs"], "steps" in values["trainer"]) == (90, False)
    assert values["trainer"]["extraArgs"] == ["--image-size=224"]


def test_data_in_a_folder_brings_its_volume(run: Run) -> None:
    values = run("init", "--node-gpus", "8", "--data", "/data/digits", "--model", "mnist").values

    assert values["data"] == {"uri": "/data/digits"}
    assert [mount["name"] for mount in values["volumeMounts"]] == [volume["name"] for volume in values["volumes"]]
    assert values["volumeMounts"][0]["mountPath"] == "/data/digits"
    assert "extraArgs" not in values["trainer"]


@pytest.mark.parametrize(
    ("data", "is_said"), [([], True), (["--data", "s3://bucket/images"], False), (["--data", "synthetic"], False)]
)
def test_training_on_random_images_is_said(run: Run, data: list[str], is_said: bool) -> None:
    made = run("init", "--node-gpus", "8", *data)

    assert (
        "distrain: no --data: the run trains on random images, to measure speed; to train on your own data, "
        "add --data URI" in made.err
    ) == is_said


def test_name_of_the_file_is_quoted_in_the_commands(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "my run;\nx.yaml"

    made = run("init", "--node-gpus", "8", "-o", str(file))

    quoted = str(file).replace("\n", " ")
    assert f"`helm distrain check -f '{file}'`".replace("\n", "\\n") in made.err
    assert file.read_text().count(f" -f '{quoted}'") == 3
    assert yaml.safe_load(file.read_text())["framework"] == "tensorflow"


def test_file_that_is_there_is_replaced_by_force_alone(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("mine: 1\n")

    refused = run("init", "--node-gpus", "8", "-o", str(file))

    assert refused.code == 2
    assert (
        refused.err == f"distrain: --output: {file} already exists; name another file, or add --force to replace it\n"
    )
    assert file.read_text() == "mine: 1\n"
    assert run("init", "--node-gpus", "8", "-o", str(file), "--force").code == 0
    assert yaml.safe_load(file.read_text())["framework"] == "tensorflow"
