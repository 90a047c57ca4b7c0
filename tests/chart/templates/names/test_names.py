"""Test that no value changes an object's name, and that a change which needs a new job changes the content hash."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chart.documents import HOOK, RUN1, annotation, documents, only
from tests.chart.kinds import KINDS, MPI, REPLACED, every_kind
from tests.chart.many import Request, render_many
from tests.chart.random_values import random_requests
from tests.chart.rendering import CHART, ROLES, VALUES, Rendered, Yaml, parse, render, render_with


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("workers.replicas=4", id="size"),
        pytest.param("podLabels.team=vision", id="label"),
        pytest.param("podAnnotations.note=mine", id="annotation"),
        pytest.param("job.cleanPodPolicy=None", id="what-the-operator-reads-while-the-job-runs"),
        pytest.param("gpus=2", id="check-alone"),
        pytest.param("job.kind=MPIJob", id="what-auto-picked"),
        pytest.param("global.x=1", id="value-for-others"),
    ],
)
def test_content_stays(helm: Path, change: str) -> None:
    assert render(helm, "--set", change).content == render(helm).content


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("image.tag=0.2.0", id="image"),
        pytest.param("workers.gpus=2", id="slots"),
        pytest.param("workers.shm=2Gi", id="worker-pod"),
        pytest.param("launcher.memory=1Gi", id="launcher-pod"),
        pytest.param("trainer.learningRate=0.1", id="argument"),
        pytest.param("mpi.env.NCCL_DEBUG=INFO", id="environment"),
        pytest.param("ssh.port=2223", id="port"),
        pytest.param("job.maxRestarts=1", id="restarts"),
        pytest.param("rescale.mode=replace", id="fixed-size"),
        pytest.param("checkpoint.every=60", id="checkpoints"),
        pytest.param("checkpoint.maxAge=600", id="age-of-checkpoints"),
        pytest.param("job.activeDeadlineSeconds=60", id="deadline"),
    ],
)
def test_content_changes(helm: Path, change: str) -> None:
    assert render(helm, "--set", change).content != render(helm).content


@pytest.fixture
def changed_chart(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHART, tmp_path / "distrain"))


def test_content_stays_in_another_version_of_the_chart(helm: Path, changed_chart: Path) -> None:
    chart_yaml = changed_chart / "Chart.yaml"
    chart_yaml.write_text(chart_yaml.read_text().replace("\nversion: 0.1.0", "\nversion: 0.9.0"))

    rendered = render(helm, chart=changed_chart)

    assert rendered.job["metadata"]["labels"]["helm.sh/chart"] == "distrain-0.9.0"
    assert rendered.content == render(helm).content
    assert "0.9.0" not in str(rendered.job["spec"])


@pytest.mark.parametrize("script", ["distrain-launch", "distrain-worker"])
def test_scripts_are_mended_in_place(helm: Path, changed_chart: Path, script: str) -> None:
    with (changed_chart / "files" / script).open("a") as file:
        file.write("# changed\n")

    rendered = render(helm, chart=changed_chart)

    assert rendered.content == render(helm).content
    assert rendered.scripts["metadata"]["name"] == render(helm).scripts["metadata"]["name"]
    # The chart changes the scripts in place, which Kubernetes refuses for an immutable ConfigMap.
    assert "immutable" not in rendered.scripts


def test_both_helms_give_the_same_content(helm3: Path, helm4: Path) -> None:
    for values in sorted(VALUES.glob("*.yaml")):
        arguments = ("--values", str(values))
        assert render(helm3, *arguments).content == render(helm4, *arguments).content


def test_name_is_the_releases(helm: Path) -> None:
    rendered = render(helm)

    assert rendered.name == "run1"
    assert rendered.scripts["metadata"]["name"] == "run1-scripts"
    assert re.fullmatch(r"[0-9a-f]{8}", rendered.content)


def test_longest_name_leaves_room_for_the_last_worker(helm: Path) -> None:
    longest = 53 * "a"

    small, large = (render(helm, "--set", f"workers.replicas={size}", release=longest).name for size in (1, 1000))

    assert small == large
    assert len(f"{large}-worker-999") <= 63


def test_releases_that_are_cut_alike_have_different_names(helm: Path) -> None:
    one, other = (render(helm, release=46 * "a" + end).name for end in ("-one", "-two"))

    assert one != other


def test_name_cut_at_a_dash_has_no_two(helm: Path) -> None:
    name = render(helm, release=35 * "a" + "-" + 17 * "b").name

    assert re.fullmatch(r"a{35}-[0-9a-f]{8}", name)


@every_kind
def test_only_what_counts_workers_differs_between_2_and_4(helm: Path, kind: str) -> None:
    two, four = (render_with(helm, (*KINDS[kind], f"workers.replicas={size}")) for size in (2, 4))

    assert without_size(two) == without_size(four)
    assert str(two.documents) != str(four.documents)


@pytest.mark.parametrize("scheduler", ["volcano", "scheduler-plugins"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("mpijob-v1alpha2", "mxjob-v1beta1")])
def test_of_a_gang_only_its_minimum_differs(helm3: Path, kind: str, scheduler: str) -> None:
    values = (*KINDS[kind], f"gang.scheduler={scheduler}")
    two, four = (render_with(helm3, (*values, f"workers.replicas={size}")) for size in (2, 4))

    assert without_size(two) == without_size(four)
    assert gang_minimum(four) == gang_minimum(two) + 2


def gang_minimum(rendered: Rendered) -> int:
    if rendered.is_plain:
        return int(rendered.find("PodGroup")["spec"]["minMember"])
    return int(rendered.job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"])


def without_size(rendered: Rendered) -> list[Yaml]:
    """Return the rendered objects without those fields that may depend on the number of workers."""
    documents: list[Yaml] = json.loads(json.dumps(rendered.documents).replace(rendered.content, "CONTENT"))
    for document in documents:
        spec = document.get("spec", {})
        for key in ("completions", "parallelism", "minMember"):
            spec.pop(key, None)
        spec.get("runPolicy", {}).get("schedulingPolicy", {}).pop("minAvailable", None)
        for roles in ROLES.values():
            for replica in spec.get(roles, {}).values():
                del replica["replicas"]
        if document["metadata"]["name"].endswith("-hostfile"):
            del document["data"]
    return documents


@every_kind
def test_another_size_is_another_job_where_its_pods_know_their_number(helm: Path, kind: str) -> None:
    two, four = (render_with(helm, (*KINDS[kind], f"workers.replicas={size}")).content for size in (2, 4))

    assert (two != four) == (kind in REPLACED)


RESCALABLE = [kind for kind in KINDS if kind not in REPLACED]


@pytest.mark.parametrize("kind", RESCALABLE)
@pytest.mark.parametrize(
    ("values", "is_replaced"),
    [
        pytest.param(("rescale.mode=live",), False, id="live"),
        pytest.param(("rescale.mode=replace",), True, id="replace"),
        pytest.param(("command={train}",), True, id="own-command"),
        pytest.param(("command={train}", "rescale.mode=live"), False, id="own-command-that-promises"),
    ],
)
def test_another_size_is_another_job_where_the_values_say_so(
    helm: Path, kind: str, values: tuple[str, ...], is_replaced: bool
) -> None:
    given = (*KINDS[kind], *values)

    two, four = (render_with(helm, (*given, f"workers.replicas={size}")) for size in (2, 4))

    assert (two.content != four.content) == is_replaced
    assert without_size(two) == without_size(four)
    if kind in MPI:
        assert f"--rescale={'replace' if is_replaced else 'live'}" in two.container("Launcher")["args"]


@pytest.mark.parametrize("kind", ["mxjob-v1", "tfjob"])
def test_more_servers_are_another_job(helm: Path, kind: str) -> None:
    one, two = (render_with(helm, (*KINDS[kind], f"servers.replicas={size}")).content for size in (1, 2))

    assert one != two


@pytest.mark.parametrize("limit", ["minReplicas", "maxReplicas"])
def test_another_range_is_another_elastic_job(helm: Path, limit: str) -> None:
    values = KINDS["pytorchjob-elastic"]

    assert render_with(helm, (*values, f"workers.{limit}=2")).content != render_with(helm, values).content


@every_kind
def test_another_image_is_another_job_of_every_kind(helm: Path, kind: str) -> None:
    assert render_with(helm, (*KINDS[kind], "image.tag=other")).content != render_with(helm, KINDS[kind]).content


@every_kind
def test_label_replaces_no_job_but_one_whose_pods_are_immutable(helm: Path, kind: str) -> None:
    labelled = render_with(helm, (*KINDS[kind], "podLabels.team=vision")).content

    assert (labelled != render_with(helm, KINDS[kind]).content) == (kind == "plain")


@pytest.mark.parametrize(
    ("started", "change"),
    [
        (("framework=pytorch", "job.elastic=false"), "job.cleanPodPolicy=All"),
        (("job.kind=Plain",), "job.activeDeadlineSeconds=60"),
    ],
)
def test_run_policy_that_the_operator_follows_keeps_the_content(
    helm: Path, started: tuple[str, ...], change: str
) -> None:
    assert render_with(helm, (*started, change)).content == render_with(helm, started).content


# LONGEST contains the longest suffix that a kind appends to the job's name for a pod, a Service or a label. The
# StatefulSet controller adds a label with a hash to each pod.
LONGEST = {
    "mxjob-v1": "-scheduler-0",
    "mxjob-v1beta1": "-scheduler-0",
    "mpijob-v1alpha2": "-worker-0123456789",
}


@every_kind
def test_names_stay_dns_labels_at_any_size(helm: Path, kind: str) -> None:
    suffix = LONGEST.get(kind, "-worker-999")
    longest = 53 * "a"

    small, large = (
        render_with(helm, (*KINDS[kind], f"workers.replicas={size}"), release=longest).name for size in (1, 1000)
    )

    assert small == large
    assert len(large + suffix) <= 63


# These patterns match all names that run1's objects may have. JOBS matches the names of the job's objects. HELPERS
# matches the names of all other objects.
JOBS = r"run1(-(scripts|plain(-(launcher|worker|keygen|hostfile|scripts|ssh))?))?"
HELPERS = rf"run1-(preflight|test|replace|keygen|(test-)?api)-{RUN1}(-\w+)?|run1-trainer-[0-9a-f]{{8}}"


@every_kind
def test_every_resource_is_named_after_the_release(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    for document in rendered.documents:
        assert re.fullmatch(f"{JOBS}|{HELPERS}", document["metadata"]["name"])
        assert document["metadata"]["namespace"] == "default"
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "run1"


def test_no_value_changes_a_name() -> None:
    """Helm finds the objects of the last revision by their names.

    If a refused revision had used other names, Helm would no longer find the objects of the running job.
    """
    asked = [
        Request(one.name, without(one.values, *OVERRIDES), "run1", "team", one.api_versions, ("helm4",))
        for one in random_requests(100)
    ]

    found = [parse(answer["helm4"].manifest) for answer in render_many(asked)]

    names = {(one["kind"], one["metadata"]["name"]) for objects in found for one in objects}
    wrong = [name for name in names if not re.fullmatch(f"{JOBS}|{HELPERS}|distrain:team:run1(:preflight)?", name[1])]
    assert wrong == []
    # So few names show that a name does not depend on the random values.
    assert len(names) < 60
    assert {"MPIJob", "PyTorchJob", "MXJob", "TFJob", "Job", "Pod", "Role"} <= {kind for kind, _ in names}


OVERRIDES = ("nameOverride", "fullnameOverride")


def without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        pytest.param("run1", ("nameOverride=vision",), "run1-vision", id="appended"),
        pytest.param("vision-1", ("nameOverride=vision",), "vision-1", id="not-twice"),
        pytest.param("run1", ("fullnameOverride=vision",), "vision", id="instead"),
        pytest.param("run1", ("fullnameOverride=vision", "nameOverride=x"), "vision", id="the-whole-wins"),
    ],
)
def test_names_can_be_others(helm: Path, release: str, values: tuple[str, ...], name: str) -> None:
    values = (*values, "checkpoint.uri=s3://b/c", "output.uri=s3://b/o")
    found = documents(helm, *values, "preflight.enabled=true", release=release)

    names = {one["metadata"]["name"] for one in found}

    assert only([one for one in found if not annotation(one, HOOK)], "MPIJob")["metadata"]["name"] == name
    assert {re.match(rf"(distrain:team:)?{name}\b", one) is not None for one in names} == {True}
    # The folders of checkpoints and output contain the release's name, so each run resumes from its own checkpoints.
    assert f"--checkpoint=s3://b/c/team/{release}'" in str(found)
    assert f"--output=s3://b/o/team/{release}'" in str(found)


@every_kind
@pytest.mark.parametrize("release", ["run1-test", "run1-replace", "run1-preflight", "run1-keygen", "run1-plain"])
def test_no_other_release_has_one_of_the_names(helm: Path, kind: str, release: str) -> None:
    values = (*KINDS[kind], "preflight.enabled=true")
    served = ("job.apiVersion=auto",) if kind.endswith(("v1alpha2", "v1beta1")) or kind == "mpijob-v1" else ()

    one, other = (called(documents(helm, *values, *served, release=name)) for name in ("run1", release))

    assert one & other == set()


def called(found: list[Yaml]) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in found}
