"""The chart below an umbrella chart, twice: two jobs of one release that share nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.documents import HOOK, REAL_CLUSTER, annotation
from tests.chart.rendering import CHART, Yaml, parse, run

VALUES = {
    "checkpoint": {"uri": "s3://b/c"},
    "output": {"uri": "s3://b/o"},
    "s3": {"secretName": "keys"},
    "preflight": {"enabled": True},
    "monitoring": {"podMonitor": True},
    "rbac": {"aggregateToKubeflowEdit": True, "kinds": ["MPIJob"]},
}


@pytest.fixture
def umbrella(tmp_path: Path) -> Path:
    """A chart of two runs, `left` and `right_2`."""
    chart = tmp_path / "umbrella"
    shutil.copytree(CHART, chart / "charts" / "distrain")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"]
    dependencies = [{"name": "distrain", "version": version, "alias": alias} for alias in ("left", "right_2")]
    about = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": dependencies}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    return chart


def rendered(helm: Path, umbrella: Path, release: str = "run1", **more: object) -> dict[str, list[Yaml]]:
    """Return the objects of each of the two."""
    values = umbrella / "values.yaml"
    values.write_text(yaml.safe_dump({alias: {**VALUES, **more} for alias in ("left", "right_2")}), encoding="utf-8")
    done = run.__wrapped__(helm, "template", release, str(umbrella), *REAL_CLUSTER)
    assert done.returncode == 0, done.stderr
    found = [text for text in done.stdout.split("---\n# Source: ") if text.strip()]
    return {alias: parse("---\n".join(f"# {one}" for one in found if f"/charts/{alias}/" in one.splitlines()[0]))
            for alias in ("left", "right_2")}  # fmt: skip


@pytest.mark.parametrize("kind", ["auto", "Plain"])
def test_two_aliases_share_no_object(helm: Path, umbrella: Path, kind: str) -> None:
    both = rendered(helm, umbrella, job={"kind": kind})

    left, right = ({(one["kind"], one["metadata"]["name"]) for one in found} for found in both.values())

    assert len(left) == len(right) >= 15
    assert left & right == set()
    assert {name for kind, name in left if not kind.startswith("ClusterRole") and "run1-left" not in name} == set()


@pytest.mark.parametrize("release", ["run1", "left", "right-2-left"])
def test_name_of_the_release_hides_no_alias(helm: Path, umbrella: Path, release: str) -> None:
    both = rendered(helm, umbrella, release)

    names = [one["metadata"]["name"] for found in both.values() for one in jobs(found)]

    assert names == [f"{release}-left", f"{release}-right-2"]


def test_two_aliases_share_no_checkpoint_and_no_pod(helm: Path, umbrella: Path) -> None:
    left, right = (str(jobs(found)[0]) for found in rendered(helm, umbrella).values())

    for place in ("--checkpoint=s3://b/c", "--output=s3://b/o"):
        assert f"{place}/default/run1.left'" in left
        assert f"{place}/default/run1.right-2'" in right
    assert "app.kubernetes.io/instance': 'run1.left'" in left
    assert "app.kubernetes.io/instance': 'run1.right-2'" in right


def test_alias_and_longest_release_fit(helm: Path, umbrella: Path) -> None:
    both = rendered(helm, umbrella, 53 * "r")

    for found in both.values():
        for one in found:
            assert one["kind"].startswith("ClusterRole") or len(one["metadata"]["name"]) <= 63
            assert len(one["metadata"]["labels"]["app.kubernetes.io/instance"]) <= 63


def jobs(found: list[Yaml]) -> list[Yaml]:
    return [one for one in found if one["kind"] == "MPIJob" and not annotation(one, HOOK)]
