"""Test values/profiles: each renders with every values file, and its pods fit its platform and Pod Security level.

The snapshots describe nodes of each platform, with published figures. In a snapshot, the key `source` names the
publication from which the figures are taken.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from distrain.admission.pod_security import LEVEL
from distrain.check.report import report
from distrain.check.snapshot import snapshot_file
from distrain.check.text import summary
from distrain.lint.rules import warnings
from distrain.verdict import Verdict
from distrain.workload.manifest import from_manifest
from tests.chart.api_schemas import all_complaints
from tests.chart.many import Pod, violations
from tests.chart.profiles.pairs import FILES, NAMESPACE, PAIRS, PROFILES, SNAPSHOTS, arguments, pods, rendered
from tests.chart.rendering import REPOSITORY, render
from tests.plugin.lint.warned import DEFAULTS, over

every_profile = pytest.mark.parametrize("profile", PROFILES)
RESTRICTED = f'"{LEVEL}": "restricted"'
every_pair = pytest.mark.parametrize(("profile", "name"), PAIRS)


# MASTER is a values file with a PyTorchJob that has a Master. The Pod Security level `restricted` refuses the init
# container that training-operator adds to the Workers of such a job.
MASTER = "mnist-pytorch"


@functools.cache
def snapshot(profile: str, level: str = "") -> snapshot_file.Contents:
    """Read the profile's snapshot.

    If `level` is given, it replaces `restricted` as the Pod Security level that the snapshot's namespace enforces.
    """
    text = (SNAPSHOTS / f"{profile}.json").read_text(encoding="utf-8")
    return snapshot_file.contents(text.replace(RESTRICTED, f'"{LEVEL}": "{level}"' if level else RESTRICTED).encode())


@every_pair
def test_apis_know_every_field_of_a_values_file_with_a_profile(helm4: Path, profile: str, name: str) -> None:
    assert list(all_complaints(rendered(helm4, profile, name))) == []


@every_pair
def test_values_file_with_a_profile_fits_its_platform(helm4: Path, profile: str, name: str) -> None:
    job = from_manifest(rendered(helm4, profile, name).text, "run1")
    cluster = snapshot(profile, "baseline" if name == MASTER else "")

    found = report(*snapshot_file.examined(cluster, job, NAMESPACE))

    assert found.verdict == Verdict.FITS, summary(found, job)


def test_check_takes_a_profile_behind_the_values_of_a_run(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    snapshot_flag = ["--snapshot", str(SNAPSHOTS / "gke-a3-mega.json")]

    code = cli.run(["check", *arguments("gke-a3-mega", "vgg16"), *snapshot_flag])

    answer = capsys.readouterr().out
    assert (code, answer.partition(" and ")[0]) == (0, "fits: 2 workers of 8 nvidia.com/gpu each")
    assert "warning" not in answer


def test_restricted_namespace_refuses_what_an_operator_adds(helm4: Path) -> None:
    job = from_manifest(rendered(helm4, "restricted-quota", MASTER).text, "run1")

    found = report(*snapshot_file.examined(snapshot("restricted-quota"), job, NAMESPACE))

    assert found.verdict == Verdict.IMPOSSIBLE
    assert "container init-pytorch, which the operator adds" in found.next


@every_pair
def test_values_file_with_a_profile_gives_no_warning(helm4: Path, profile: str, name: str) -> None:
    job = from_manifest(rendered(helm4, profile, name).text, "run1")

    assert warnings(merged(FILES[name], PROFILES[profile]), job, snapshot(profile).nodes, with_size=True) == []


@pytest.mark.parametrize("name", FILES)
def test_values_file_gives_no_warning(helm4: Path, name: str) -> None:
    job = from_manifest(render(helm4, "--values", str(FILES[name])).text, "run1")

    assert warnings(merged(FILES[name]), job) == []


def merged(*files: Path) -> dict[str, Any]:
    return functools.reduce(over, (yaml.safe_load(file.read_text(encoding="utf-8")) for file in files), DEFAULTS)


def level_of(profile: str) -> str:
    return str(yaml.safe_load(PROFILES[profile].read_text(encoding="utf-8")).get("podSecurity", "restricted"))


@functools.cache
def violated(helm: Path) -> dict[tuple[str, str], set[str]]:
    """For each profile's pods, return Pod Security admission's messages at the profile's own level and at baseline."""
    asked = [
        (profile, level, pod)
        for profile in PROFILES
        for level in {level_of(profile), "baseline"}
        for pod in pods(helm, profile)
    ]
    said: dict[tuple[str, str], set[str]] = {}
    answers = violations(Pod(level, pod["spec"], pod["metadata"]) for _, level, pod in asked)
    for (profile, level, _), answer in zip(asked, answers, strict=True):
        said.setdefault((profile, level), set()).add(answer)
    return said


@every_profile
def test_pod_security_admission_takes_the_pods_of_a_profile(helm4: Path, profile: str) -> None:
    assert violated(helm4)[profile, level_of(profile)] == {""}


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if level_of(profile) == "privileged"])
def test_profile_takes_no_wider_level_than_it_needs(helm4: Path, profile: str) -> None:
    assert violated(helm4)[profile, "baseline"] - {""}


@every_profile
def test_namespace_of_the_platform_enforces_the_level_of_the_profile(profile: str) -> None:
    (namespace,) = snapshot(profile).by_kind["Namespace"]

    assert (namespace.metadata.labels or {})[LEVEL] == level_of(profile)


@every_profile
def test_profile_names_its_source_and_what_was_not_tried(profile: str) -> None:
    text = PROFILES[profile].read_text(encoding="utf-8")

    assert f" -f values/profiles/{profile}.yaml\n" in text
    assert re.search(r"^# Source(, read \d{4}-\d\d-\d\d)?:", text, flags=re.MULTILINE)
    assert re.search(r"This file was not tried on |not with\n# this file", text)
    assert json.loads((SNAPSHOTS / f"{profile}.json").read_text(encoding="utf-8"))["source"]


def test_page_lists_every_profile() -> None:
    page = (REPOSITORY / "docs" / "platforms.md").read_text(encoding="utf-8")

    listed = re.findall(r"^\| [^|]+ \| \[([\w-]+)\.yaml\]\(\.\./values/profiles/\1\.yaml\)", page, flags=re.MULTILINE)

    assert sorted(listed) == sorted(PROFILES)
