"""Test which values `derive` keeps, adds and refuses in the printed file, and the answers of `--check`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lab.paths import CHART, REPOSITORY
from tests.plugin.derive.deriving import Derive
from tests.plugin.program import Outcome, Run

GOLDEN = REPOSITORY / "tests" / "plugin" / "golden"
NEXT_STEP = "run `helm distrain derive` with this file and keep what it prints"


def test_example_is_completed_as_the_golden_file_says(derive_with_each: Derive) -> None:
    outcome = derive_with_each(GOLDEN / "given.yaml", "--node-gpus", "8")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (GOLDEN / "derived.yaml").read_text()


def test_derived_file_derived_again_is_the_same(derive_with_each: Derive) -> None:
    again = derive_with_each(GOLDEN / "derived.yaml", "--node-gpus", "8")
    # The second `derive` does not need the size of the nodes again.
    without = derive_with_each(GOLDEN / "derived.yaml")

    assert again.out == without.out == (GOLDEN / "derived.yaml").read_text()


def test_derived_file_is_accepted_by_helm(helm: Path) -> None:
    command = [str(helm), "template", "run1", str(CHART), "-f", str(GOLDEN / "derived.yaml")]

    rendered = subprocess.run(command, capture_output=True, text=True, check=True)

    job = next(one for one in yaml.safe_load_all(rendered.stdout) if one and one["kind"] == "MPIJob")
    assert (job["spec"]["slotsPerWorker"], job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]) == (8, 4)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "values").glob("*.yaml")), ids=lambda path: path.name)
def test_values_to_start_from_keep_every_line_and_every_value(derive: Derive, path: Path) -> None:
    outcome = derive(path)

    assert (outcome.code, outcome.err) == (0, "")
    assert set(path.read_text().split("\n")) <= set(outcome.out.split("\n"))
    given_values = yaml.safe_load(path.read_text())
    shm = {"shm": outcome.workers["shm"]} if outcome.workers.get("shm") else {}
    assert outcome.values == {**given_values, "workers": {**given_values["workers"], **shm}}
    assert derive(outcome.out).out == outcome.out


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    total=st.sampled_from([1, 4, 6, 13, 30, 32, 96]),
    own=st.dictionaries(st.sampled_from(["cpu", "memory", "shm"]), st.sampled_from(["2", "4"]), max_size=2),
    is_flow=st.booleans(),
    framework=st.sampled_from(["tensorflow", "pytorch", "mxnet"]),
    node_gpus=st.sampled_from(["1", "4", "8"]),
)
def test_deriving_twice_changes_nothing(
    derive: Derive, total: int, own: dict[str, str], is_flow: bool, framework: str, node_gpus: str
) -> None:
    # The chart refuses a workers.shm above workers.memory.
    assume(own.get("shm", "") <= own.get("memory", "4"))
    workers = {key: int(value) if key == "cpu" else f"{value}Gi" for key, value in own.items()}
    values = {"workers": workers, "gpus": total, "framework": framework} if own else {"gpus": total}
    text = yaml.safe_dump(values, default_flow_style=is_flow, sort_keys=False)

    once = derive(text, "--node-gpus", node_gpus)

    assert once.code == 0
    assert once.workers["replicas"] * once.workers["gpus"] == total
    assert once.workers["gpus"] <= int(node_gpus)
    assert workers.items() <= once.workers.items()
    assert derive(once.out, "--node-gpus", node_gpus).out == once.out
    assert derive(once.out, "--check").code == 0


def test_number_of_workers_alone_leaves_their_size_to_the_nodes(derive: Derive) -> None:
    asked = derive("gpus: 4\nworkers: {replicas: 4}\n")

    assert asked.code == 3
    assert "or say --node-gpus N, the GPUs of a node" in asked.err


@pytest.mark.parametrize(
    ("values", "arguments", "words"),
    [
        pytest.param(
            "gpus: 12\nworkers: {gpus: 8}\n",
            ["--node-gpus", "8"],
            "gpus: 12 cannot be spread evenly into workers of 8 (workers.gpus); set gpus to 8 (1 worker of 8) or 16 "
            "(2 workers of 8), or leave workers.gpus out",
            id="own-gpus",
        ),
        pytest.param(
            "gpus: 32\nworkers: {replicas: 3}\n",
            ["--node-gpus", "8"],
            "gpus: 32 cannot be spread evenly into 3 workers (workers.replicas); set gpus to 24 (3 workers of 8), "
            "or leave workers.replicas out",
            id="own-replicas",
        ),
        pytest.param(
            "gpus: 16\nworkers: {gpus: 8}\n",
            ["--node-gpus", "8", "--set", "gpus=9"],
            "gpus: 9 cannot be spread evenly into workers of 8 (workers.gpus); set gpus to 8 (1 worker of 8) or 16 "
            "(2 workers of 8), or leave workers.gpus out",
            id="flag-against-own-gpus",
        ),
        pytest.param(
            "gpus: 8\nworkers: {gpus: 8, maxReplicas: 2}\nframework: pytorch\n",
            ["--node-gpus", "8", "--set", "gpus=11"],
            "gpus: 11 cannot be spread evenly into workers of 8 (workers.gpus); set gpus to 8 (1 worker of 8) or 16 "
            "(2 workers of 8)",
            id="own-gpus-and-no-other-way",
        ),
        pytest.param(
            "gpus: 24\nframework: pytorch\nworkers: {maxReplicas: 2}\n",
            ["--node-gpus", "8"],
            "gpus: 24 cannot be spread evenly over at most 2 workers of at most 8; set gpus to 16 (2 workers of 8)",
            id="too-few-workers-allowed",
        ),
        pytest.param(
            "gpus: 1009\n",
            ["--node-gpus", "8"],
            "gpus: 1009 cannot be spread evenly over workers of at most 8; set gpus to 1008 (126 workers of 8) or 1010 "
            "(202 workers of 5)",
            id="prime-beyond-the-most-workers",
        ),
        pytest.param(
            "gpus: 9\nworkers: {replicas: 4, gpus: 2}\n",
            [],
            "gpus: 9 is not workers.replicas * workers.gpus = 4 * 2 = 8; --set gpus=8; "
            "or leave out workers.replicas and workers.gpus, which `helm distrain derive` then sets",
            id="refused-by-the-chart",
        ),
        pytest.param(
            "worker: {gpus: 2}\n", [], "worker: there is no such value; did you mean workers?", id="misspelt-key"
        ),
        pytest.param(
            "job: {enabled: false}\n",
            [],
            "job.enabled: is false, so there is nothing to derive; set it to true",
            id="no-job",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--node-gpus", "0"],
            '--node-gpus: "0" is no number of GPUs: write 8; see `distrain derive --help`',
            id="no-gpus-per-node",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--node-gpus", "8", "--snapshot", "x"],
            "--snapshot: does not go with --node-gpus; leave one of them out; see `distrain derive --help`",
            id="two-sources",
        ),
        pytest.param(
            "gpus: 8\n",
            ["--snapshot", "/no/such"],
            "--snapshot: /no/such cannot be read: No such file or directory; it takes the output of "
            "`helm distrain snapshot`, or of `kubectl get nodes,pods -A -o json`",
            id="no-snapshot",
        ),
        pytest.param(
            "trainer: {extraArgs: [--batch-size=many]}\n",
            [],
            "trainer.extraArgs: invalid literal for int() with base 10: 'many'; the trainer takes a number there",
            id="no-number",
        ),
        pytest.param(
            "gpus: 8\n",
            ["-f", "no-such.yaml"],
            "--values: no-such.yaml cannot be read: No such file or directory; name another file",
            id="no-file",
        ),
    ],
)
def test_mistake_is_one_line(
    derive: Derive, values: str, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert derive(values, *arguments) == Outcome(2, "", f"distrain: {words}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("no json", ": it is no JSON at line 1, column 1; it may be cut off; ", id="no-json"),
        pytest.param("[]", ": it has no list of items; ", id="no-list"),
        pytest.param('{"items": []}', " holds no node; it takes the output of", id="no-node"),
        pytest.param(
            '{"items": [{"kind": "Node", "spec": 3}]}',
            ": Node items[0]: spec: found a whole number; it needs a block of keys; ",
            id="no-node-form",
        ),
    ],
)
def test_snapshot_that_is_something_else_is_refused(derive: Derive, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(content)

    outcome = derive("gpus: 8\n", "--snapshot", str(path))

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: --snapshot: {path}{words}")
    assert len(outcome.err.splitlines()) == 1


def test_figures_follow_what_the_trainer_is_told_last(derive: Derive) -> None:
    outcome = derive("gpus: 8\ntrainer: {batchSize: 64, extraArgs: [--batch-size=16]}\n", "--node-gpus", "8")

    assert "#   global batch      128 = 8 ranks x trainer.batchSize 16\n" in outcome.out


def test_figures_count_one_rank(derive: Derive) -> None:
    outcome = derive("gpus: 1\ntrainer: {batchSize: 64}\n", "--node-gpus", "1")

    assert "#   world size        1 = 1 worker x 1 rank\n" in outcome.out
    assert "#   global batch      64 = 1 rank x trainer.batchSize 64\n" in outcome.out


@pytest.mark.parametrize(
    ("gpus", "model", "traffic"),
    [
        pytest.param(1, "vgg16", set(), id="one-rank"),
        pytest.param(2, "vgg16", {"all-reduce", "parameter server"}, id="two-ranks-of-a-worker"),
        pytest.param(16, "vgg16", {"all-reduce", "parameter server", "communication"}, id="two-workers"),
        pytest.param(1, "mine:model", set(), id="one-rank-of-a-users-model"),
        pytest.param(2, "mine:model", {"all-reduce"}, id="two-ranks-of-a-users-model"),
    ],
)
def test_figures_tell_of_traffic_where_there_is_some(derive: Derive, gpus: int, model: str, traffic: set[str]) -> None:
    outcome = derive(f"gpus: {gpus}\ntrainer: {{model: '{model}'}}\n", "--node-gpus", "8")

    assert {
        name for name in ("all-reduce", "parameter server", "communication") if f"#   {name} " in outcome.out
    } == traffic


def test_figures_count_the_steps_of_all_epochs(derive: Derive) -> None:
    trainer = "data: {uri: 's3://bucket/images'}\ntrainer: {model: resnet50, batchSize: 32, epochs: 2}"

    assert "; 10010 in 2 epochs\n" in derive(f"gpus: 8\n{trainer}\n", "--node-gpus", "8").out
    assert " epochs\n" not in derive("gpus: 8\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out


def test_figures_name_the_longest_time_between_checkpoints(derive: Derive) -> None:
    one = derive("gpus: 1\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out
    many = derive("gpus: 64\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out

    assert "#   checkpoint        one every 30 min, the longest that checkpoint.every: auto takes\n" in one
    assert "loses least (Young/Daly)" in many


def test_gpus_of_nought_train_on_cpus(derive: Derive) -> None:
    outcome = derive("gpus: 0\n")

    assert outcome.workers == {"gpus": 0}
    assert "#   world size        2 = 2 workers x 1 rank, on CPUs\n" in outcome.out


def test_another_total_moves_the_derived_lines_alone(derive: Derive) -> None:
    derived = (GOLDEN / "derived.yaml").read_text()

    larger = derive(derived.replace("gpus: 32", "gpus: 64"), "--node-gpus", "8")
    by_flag = derive(derived, "--set", "gpus=64", "--node-gpus", "8")
    taken_over = derive(derived.replace("# derived: gpus 32 on whole nodes of 8", "# mine"), "--node-gpus", "4")

    assert larger.out == by_flag.out
    assert (larger.workers["replicas"], larger.workers["gpus"]) == (8, 8)
    # Without the comment, the figure counts as the user's.
    assert (taken_over.workers["replicas"], taken_over.workers["gpus"]) == (4, 8)
    assert "  gpus: 8  # mine\n" in taken_over.out


def test_figures_derived_from_a_total_that_is_gone_are_the_users(derive: Derive) -> None:
    text = "".join(line for line in (GOLDEN / "derived.yaml").open() if not line.startswith("gpus:"))

    outcome = derive(text)

    assert (outcome.workers["replicas"], outcome.workers["gpus"]) == (4, 8)
    assert outcome.err.startswith(
        "distrain: workers.replicas: 4 was derived from gpus, which is gone; it is yours now\n"
    )
    assert "replicas: 4\n" in outcome.out


def test_files_and_flags_merge_as_helm_merges_them(derive: Derive, tmp_path: Path) -> None:
    second = tmp_path / "b.yaml"
    second.write_text("# theirs, of the whole file\n\n# more\nworkers:\n  # theirs\n  shm: 3Gi\n")

    outcome = derive(
        "# first\ngpus: 16  # all\nworkers: {tolerations: [{operator: Exists}]}\n",
        *("-f", str(second), "--node-gpus", "8", "--set", "gpus=8,trainer.model=vgg16", "--set-string", "s3.region=a"),
    )

    assert outcome.values == {
        "gpus": 8,
        "workers": {"replicas": 1, "gpus": 8, "shm": "3Gi", "tolerations": [{"operator": "Exists"}]},
        "trainer": {"model": "vgg16"},
        "s3": {"region": "a"},
    }
    for comment in ("# first\n", "# theirs, of the whole file\n", "# more\n", "  # theirs\n", "gpus: 8  # all\n"):
        assert comment in outcome.out


def test_flag_changes_one_line_of_a_section(derive: Derive) -> None:
    outcome = derive("gpus: 8\nworkers:\n  # mine\n  shm: 3Gi\n", "--node-gpus", "8", "--set", "workers.cpu=2")

    assert "  # mine\n  shm: 3Gi\n" in outcome.out
    assert outcome.workers["cpu"] == 2


def test_order_that_an_anchor_needs_is_kept(derive: Derive) -> None:
    text = "trainer: &t\n  batchSize: 8\nx-t: *t\ndata: {source: synthetic}\nlauncher: {nodeSelector: &n {a: b}}\n"

    outcome = derive(f"{text}workers: {{nodeSelector: *n}}\ngpus: 8\n", "--node-gpus", "8")

    assert outcome.code == 0
    assert outcome.values["x-t"] == {"batchSize": 8}
    assert outcome.workers["nodeSelector"] == {"a": "b"}
    assert outcome.workers["gpus"] == 8


def test_several_documents_in_a_file_are_refused_by_name(derive: Derive, run: Run, tmp_path: Path) -> None:
    several = "workers: {cpu: 2}\n---\nworkers: {cpu: 3}\n"
    (tmp_path / "run.yaml").write_text(several)

    from_stdin = derive(several, "--node-gpus", "8")
    from_file = run("derive", "-f", str(tmp_path / "run.yaml"), "--node-gpus", "8")

    words = "holds several YAML documents; join them into one, without the line ---"
    assert from_stdin == Outcome(2, "", f"distrain: --values: -: {words}\n")
    assert from_file == Outcome(2, "", f"distrain: --values: {tmp_path}/run.yaml: {words}\n")


def test_number_is_what_helm_reads_as_a_number(derive: Derive) -> None:
    # PyYAML reads text, Helm reads 0.1.
    outcome = derive("gpus: 8\ntrainer: {learningRate: 1e-1}\n", "--node-gpus", "8", "-o", "json")

    assert json.loads(outcome.out)["trainer"] == {"learningRate": 0.1}


def test_json_holds_the_same_values_in_the_schemas_order(derive: Derive) -> None:
    outcome = derive(GOLDEN / "given.yaml", "--node-gpus", "8", "-o", "json")

    values = json.loads(outcome.out)
    assert values == yaml.safe_load((GOLDEN / "derived.yaml").read_text())
    assert list(values) == ["framework", "gpus", "workers", "trainer"]


def test_check_passes_a_derived_file_and_needs_no_cluster(derive_with_each: Derive) -> None:
    outcome = derive_with_each(GOLDEN / "derived.yaml", "--check")

    assert outcome == Outcome(0, "derived values are up to date\n", "")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(
            "gpus: 32",
            "gpus: 64",
            "workers.replicas: found 4 x workers.gpus 8 = 32, expected gpus 64",
            id="another-total",
        ),
        pytest.param(
            "replicas: 4 ",
            "replicas: 2 ",
            "workers.replicas: found 2 x workers.gpus 8 = 16, expected gpus 32",
            id="replicas-changed",
        ),
        pytest.param(
            "shm: 8Gi ",
            "shm: 4Gi ",
            "workers.shm: found 4Gi, expected 8Gi (1Gi for each of 8 ranks)",
            id="shm-changed",
        ),
        pytest.param(
            "batchSize: 64",
            "batchSize: 32",
            "comment 'global batch': found \"2048 = 32 ranks x trainer.batchSize 64\", "
            'expected "1024 = 32 ranks x trainer.batchSize 32"',
            id="batch-changed",
        ),
        pytest.param(
            "#   world size        32 = 4 workers x 8 ranks\n",
            "",
            "comment 'world size': found nothing, expected \"32 = 4 workers x 8 ranks\"",
            id="figure-removed",
        ),
    ],
)
def test_check_names_what_is_stale(derive: Derive, old: str, new: str, words: str) -> None:
    text = (GOLDEN / "derived.yaml").read_text()
    assert old in text

    outcome = derive(text.replace(old, new), "--check")

    assert outcome == Outcome(2, "", f"distrain: {words}; {NEXT_STEP}\n")


def test_check_of_several_files_names_each_stale_one(derive: Derive, tmp_path: Path) -> None:
    stale = tmp_path / "stale.yaml"
    stale.write_text((GOLDEN / "derived.yaml").read_text().replace("gpus: 32", "gpus: 16"))
    never = tmp_path / "never.yaml"
    never.write_text("gpus: 32\n")

    outcome = derive("", "--check", str(stale), str(GOLDEN / "derived.yaml"), str(never))

    assert outcome.code == 2
    assert [line.split(": ")[1] for line in outcome.err.splitlines()] == [str(stale), str(never)]


def test_check_of_several_derived_files_passes(derive: Derive, tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text((GOLDEN / "derived.yaml").read_text())

    outcome = derive("", "--check", str(copy), str(copy))

    assert (outcome.code, outcome.out) == (0, "derived values are up to date\n")


def test_values_file_that_the_page_on_gitops_starts_from_is_derived(derive: Derive) -> None:
    assert derive("", "--check", str(REPOSITORY / "docs" / "run1.yaml")).code == 0


def test_stdin_below_several_files_counts_for_each(derive: Derive, tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text((GOLDEN / "derived.yaml").read_text())
    assert "memory" not in files[0].read_text()

    outcome = derive("workers: {memory: 4Gi}\n", "--check", *map(str, files))

    words = "workers.shm: found 8Gi, expected 2Gi (half of workers.memory)"
    assert outcome.code == 2
    assert outcome.err.splitlines() == [f"distrain: {file}: {words}; {NEXT_STEP}" for file in files]


@pytest.mark.parametrize("files", [["-"], ["-", "-"], ["a.yaml", "-"]])
def test_stdin_that_would_be_read_twice_is_refused(derive: Derive, files: list[str]) -> None:
    outcome = derive(GOLDEN / "derived.yaml", "--check", *files)

    assert (outcome.code, outcome.err) == (2, "distrain: FILE: - is stdin, which can be read only once; name a file\n")


def test_files_without_check_are_refused(derive: Derive) -> None:
    outcome = derive("gpus: 32\n", "a.yaml")

    assert (outcome.code, outcome.err.startswith("distrain: FILE: a.yaml is for --check; add it, or name")) == (2, True)


def test_check_of_a_file_that_was_never_derived_says_so(derive: Derive) -> None:
    outcome = derive("gpus: 32\n", "--check")

    assert outcome.code == 2
    assert outcome.err == f"distrain: gpus: 32 is not spread over workers.replicas and workers.gpus yet; {NEXT_STEP}\n"


def test_check_against_other_nodes_finds_the_split_stale(derive: Derive) -> None:
    outcome = derive(GOLDEN / "derived.yaml", "--check", "--node-gpus", "4")

    assert outcome.code == 2
    assert outcome.err.startswith(
        "distrain: workers.replicas: found 4, expected 8 (gpus / workers.gpus = 32 / 4); run "
    )


def test_check_names_the_first_value_of_the_file_that_is_derived_no_more(derive: Derive) -> None:
    derived = derive("gpus: 1\n", "--node-gpus", "8").out
    shm = "  shm: 8Gi  # derived: 1Gi for each of 8 ranks\n"
    share = "# derived: a node's share for 8 GPUs\n"

    one, three = (
        derive(derived.replace("workers:\n", f"workers:\n{lines}"), "--check")
        for lines in (shm, f"  cpu: 15  {share}  memory: 60Gi  {share}{shm}")
    )

    assert one == Outcome(2, "", f"distrain: workers.shm: found 8Gi, expected nothing; {NEXT_STEP}\n")
    assert three.err.endswith(f"distrain: workers.cpu: found 15, expected nothing; {NEXT_STEP}\n")


def test_section_whose_only_value_is_derived_no_more_goes(derive: Derive) -> None:
    outcome = derive("workers:\n  shm: 8Gi  # derived: 1Gi for each of 8 ranks\n")

    assert (outcome.code, outcome.err) == (0, "")
    assert "workers:" not in outcome.out


def test_comment_that_looks_like_a_figure_is_not_read_as_one(derive: Derive) -> None:
    head = "# My run:\n#\n#   helm distrain check -f run.yaml\n\n"
    made = derive(head + "gpus: 8\n", "--node-gpus", "8").out

    assert "#   helm distrain check -f run.yaml\n" in made
    assert derive(made, "--check").out == "derived values are up to date\n"


LIMITED = "workers: {gpus: 0, cpu: 8, memory: 16Gi, resources: {limits: {cpu: 8}}"


def qos_of(outcome: Outcome) -> str:
    """Return what the file says about the QoS class, or an empty string."""
    lines = [line for line in outcome.out.splitlines() if line.startswith("#   QoS class ")]
    return lines[0].removeprefix("#   QoS class ").strip() if lines else ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(
            f"{LIMITED}}}\n",
            "Guaranteed: the cpu and memory limits of every container of a worker are its requests",
            id="guaranteed",
        ),
        pytest.param("workers: {gpus: 0, cpu: 8, memory: 16Gi}\n", "", id="no-limit-is-asked-for"),
        pytest.param(
            f"{LIMITED}, sidecars: [{{name: exporter, image: e}}]}}\n",
            "Burstable, not Guaranteed: container exporter has no cpu limit",
            id="sidecar-without-limits",
        ),
        pytest.param(
            "workers: {gpus: 0, cpu: 4, memory: 16Gi, resources: {limits: {cpu: 8}}}\n",
            "Burstable, not Guaranteed: the cpu limit of container worker is not its request",
            id="request-below-the-limit",
        ),
        pytest.param(
            "workers: {gpus: 0, resources: {limits: {cpu: 8}}}\n",
            "Burstable, not Guaranteed: container worker has no memory limit",
            id="no-memory-limit",
        ),
        pytest.param(
            f"framework: pytorch\njob: {{elastic: false}}\n{LIMITED}}}\n",
            "Burstable, not Guaranteed: the cpu limit of container init-pytorch is not its request",
            id="container-of-the-operator",
        ),
    ],
)
def test_file_tells_the_qos_class_of_workers_with_a_cpu_limit(derive: Derive, values: str, words: str) -> None:
    outcome = derive(values)

    assert (outcome.code, outcome.err) == (0, "")
    assert qos_of(outcome) == words
    assert derive(outcome.out, "--check").code == 0


CLAIMED = 'workers: {gpuResource: "", podSpec: {resourceClaims: [{name: a, resourceClaimTemplateName: b}]}'


def test_gpus_of_claims_are_ranks(derive: Derive) -> None:
    outcome = derive(f"{CLAIMED}, replicas: 2, gpus: 8}}\n")

    assert (outcome.code, outcome.err) == (0, "")
    assert "#   world size        16 = 2 workers x 8 ranks\n" in outcome.out


def test_gpus_of_claims_are_not_looked_for_on_the_nodes(derive: Derive) -> None:
    asked = derive(f"gpus: 16\n{CLAIMED}}}\n")
    stated = derive(f"gpus: 16\n{CLAIMED}}}\n", "--node-gpus", "8")

    assert asked.code == 2
    assert "workers.gpuResource: is empty, so that the nodes do not tell their GPUs; set workers.replicas" in asked.err
    assert (stated.workers["replicas"], stated.workers["gpus"]) == (2, 8)
