"""Test an umbrella chart that contains the chart twice: the release has two jobs that do not share any object."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.documents import HOOK, REAL_CLUSTER, annotation
from tests.chart.rendering import CHART, Yaml, parse, run
from tests.matrix import one_of

VALUES = {
    "checkpoint": {"uri": "s3://b/c"},
    "output": {"uri": "s3://b/o"},
    "s3": {"secretName": "keys"},
    "preflight": {"enabled": True},
    "monitoring": {"podMonitor": True},
    "rbac": {"aggregateToKubeflowEdit": True, "kinds": ["MPIJob"]},
}
# Names of Kubernetes objects cannot contain the underscore of `right_2`.
RIGHT = "right-2-" + hashlib.sha256(b"right_2").hexdigest()[:4]

# The values that Kubernetes allows for a label.
LABEL = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@pytest.fixture
def umbrella(tmp_path: Path) -> Path:
    """Render an umbrella chart with two runs, `left` and `right_2`."""
    return make_umbrella(tmp_path, "left", "right_2")


def make_umbrella(folder: Path, *aliases: str) -> Path:
    chart = folder / "umbrella"
    shutil.copytree(CHART, chart / "charts" / "distrain")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"]
    dependencies = [{"name": "distrain", "version": version, "alias": alias} for alias in aliases]
    about = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": dependencies}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    return chart


def rendered(helm: Path, umbrella: Path, release: str = "run1", **more: object) -> dict[str, list[Yaml]]:
    """Return the objects of each of the two runs."""
    chart = yaml.safe_load((umbrella / "Chart.yaml").read_text(encoding="utf-8"))
    aliases = [each["alias"] for each in chart["dependencies"]]
    values = umbrella / "values.yaml"
    values.write_text(yaml.safe_dump({alias: {**VALUES, **more} for alias in aliases}), encoding="utf-8")
    done = run.__wrapped__(helm, "template", release, str(umbrella), *REAL_CLUSTER)
    assert done.returncode == 0, done.stderr
    found = [text for text in done.stdout.split("---\n# Source: ") if text.strip()]
    return {alias: parse("---\n".join(f"# {one}" for one in found if f"/charts/{alias}/" in one.splitlines()[0]))
            for alias in aliases}  # fmt: skip


@pytest.mark.parametrize("kind", ["auto", "Plain"])
def test_two_aliases_share_no_object(helm: Path, umbrella: Path, kind: str) -> None:
    both = rendered(helm, umbrella, job={"kind": kind})

    left, right = ({(one["kind"], one["metadata"]["name"]) for one in found} for found in both.values())

    assert len(left) == len(right) >= 15
    assert left & right == set()
    assert {name for kind, name in left if not kind.startswith("ClusterRole") and "run1-left" not in name} == set()


@pytest.mark.parametrize("release", ["run1", "left", f"{RIGHT}-left"])
def test_name_of_the_release_hides_no_alias(helm: Path, umbrella: Path, release: str) -> None:
    both = rendered(helm, umbrella, release)

    names = [one["metadata"]["name"] for found in both.values() for one in jobs(found)]

    assert names == [f"{release}-left", f"{release}-{RIGHT}"]


def test_two_aliases_share_no_checkpoint_and_no_pod(helm: Path, umbrella: Path) -> None:
    left, right = (str(jobs(found)[0]) for found in rendered(helm, umbrella).values())

    for place in ("--checkpoint=s3://b/c", "--output=s3://b/o"):
        assert f"{place}/default/run1.left'" in left
        assert f"{place}/default/run1.{RIGHT}'" in right
    assert "app.kubernetes.io/instance': 'run1.left'" in left
    assert f"app.kubernetes.io/instance': 'run1.{RIGHT}'" in right


@pytest.mark.parametrize(
    "aliases", [("a_b", "a-b"), ("Vision", "vision"), ("a-", "a"), ("experiment-a", "experiment-b"), ("_", "-")]
)
@pytest.mark.parametrize("release", one_of([53 * "r", "run1"]))
def test_aliases_that_are_alike_share_nothing(
    helm4: Path, tmp_path: Path, aliases: tuple[str, str], release: str
) -> None:
    both = rendered(helm4, make_umbrella(tmp_path, *aliases), release)

    left, right = ({(one["kind"], one["metadata"]["name"]) for one in found} for found in both.values())
    assert left & right == set()
    assert all(re.fullmatch(r"[a-z0-9:]([-.:a-z0-9]*[a-z0-9])?", name) for _, name in left | right)
    instances = [jobs(found)[0]["metadata"]["labels"]["app.kubernetes.io/instance"] for found in both.values()]
    assert len({*instances}) == 2
    checkpoints = [re.findall("--checkpoint=[^']*", str(jobs(found)[0])) for found in both.values()]
    assert checkpoints[0] != checkpoints[1]


def test_labels_of_odd_aliases_are_valid(helm: Path, tmp_path: Path) -> None:
    # Helm allows letters, digits, - and _ anywhere in an alias. Some of these aliases would make a label begin or end
    # with another character than a letter or digit. Without quotes, one label would be a number.
    odd = ("_small", "-small", 60 * "x", 62 * "x", 63 * "7", 70 * "_")

    found = rendered(helm, make_umbrella(tmp_path, *odd))

    for alias, objects in found.items():
        labels = [label for one in objects for label in one["metadata"]["labels"].values()]
        assert len(labels) > 50
        assert [each for each in labels if not isinstance(each, str) or not LABEL.fullmatch(each)] == [], alias
    assert found["_small"][0]["metadata"]["labels"]["helm.sh/chart"] == "small-0.1.0"


def make_nested(folder: Path, alias: str | None) -> Path:
    """Create a chart with two subcharts that each contain distrain's chart."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"]
    own: dict[str, Yaml] = {"name": "distrain", "version": version, **({"alias": alias} if alias else {})}
    middles = [{"name": name, "version": "1.0.0"} for name in ("a", "b")]
    for middle in middles:
        shutil.copytree(CHART, folder / "charts" / middle["name"] / "charts" / "distrain")
        about = {"apiVersion": "v2", **middle, "dependencies": [own]}
        (folder / "charts" / middle["name"] / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    about = {"apiVersion": "v2", "name": "top", "version": "1.0.0", "dependencies": middles}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    values = {each["name"]: {alias or "distrain": VALUES} for each in middles}
    (folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder


@pytest.mark.parametrize("alias", [None, "same", "plain_2"])
@pytest.mark.parametrize("release", one_of([53 * "r", "run1"]))
def test_two_charts_of_the_chart_above_share_nothing(
    helm: Path, tmp_path: Path, alias: str | None, release: str
) -> None:
    top = make_nested(tmp_path / "top", alias)

    done = run.__wrapped__(helm, "template", release, str(top), *REAL_CLUSTER)

    assert done.returncode == 0, done.stderr
    objects = parse(done.stdout)
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names)) >= 30
    both = jobs(objects)
    assert len({str(re.findall("--(?:checkpoint|output)=[^']*", str(job))) for job in both}) == len(both) == 2
    assert len({job["metadata"]["labels"]["app.kubernetes.io/instance"] for job in both}) == 2


def test_alias_and_longest_release_fit(helm: Path, umbrella: Path) -> None:
    both = rendered(helm, umbrella, 53 * "r")

    for found in both.values():
        for one in found:
            assert one["kind"].startswith("ClusterRole") or len(one["metadata"]["name"]) <= 63
            assert len(one["metadata"]["labels"]["app.kubernetes.io/instance"]) <= 63


@pytest.mark.parametrize("alias", ["plain", "left-plain"])
def test_alias_that_may_be_the_name_of_a_plain_run_is_refused(helm: Path, tmp_path: Path, alias: str) -> None:
    umbrella = make_umbrella(tmp_path, "left", alias)

    done = run.__wrapped__(helm, "template", "run1", str(umbrella))
    mended = run.__wrapped__(helm, "template", "run1", str(umbrella), "--set", f"{alias}.nameOverride=bare")

    assert (
        f'distrain: nameOverride: a name that ends in "{alias}" can clash with the name of another run'
    ) in done.stderr
    assert mended.returncode == 0, mended.stderr


def jobs(found: list[Yaml]) -> list[Yaml]:
    return [one for one in found if one["kind"] == "MPIJob" and not annotation(one, HOOK)]
