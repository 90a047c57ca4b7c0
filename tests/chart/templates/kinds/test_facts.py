"""Test that facts about the job kinds are only in schemas/kinds.yaml, and that templates or plugin read each fact."""

from __future__ import annotations

import ast
import copy
import json
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from distrain.workload import kinds
from lab.paths import CHART, REPOSITORY
from schemas import build
from tests.chart.rendering import Rendered, Yaml, parse, run

FACTS = json.loads((CHART / "files" / "kinds.json").read_text(encoding="utf-8"))
TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())
MODULES = sorted((REPOSITORY / "plugin" / "distrain").rglob("*.py"))
COMMENT = re.compile(r"\{\{-? /\*.*?\*/ ?-?\}\}", re.DOTALL)

KINDS = "|".join(kind["name"] for kind in FACTS["kinds"])
VERSIONS = {version["name"] for kind in FACTS["kinds"] for version in kind["versions"]}
ANY_VERSION = "|".join(sorted(VERSIONS, key=len, reverse=True))
GROUPS = "|".join({re.escape(kind["group"]) for kind in FACTS["kinds"] if "group" in kind})
# Matches texts such as "kubeflow.org/v1", "MPIJob v1" and "mpi-operator 0.4.0".
COPY = re.compile(rf"({GROUPS})/v\d|\b({KINDS}) ({ANY_VERSION})\b|\b({'|'.join(FACTS['operators'])}) v?\d")
# `v1` is left out, because Kubernetes itself also has an API version of this name.
TELLING = VERSIONS - {"v1"} | {kind["group"] for kind in FACTS["kinds"] if "group" in kind}


def code_of(template: Path) -> str:
    return COMMENT.sub("", template.read_text(encoding="utf-8"))


def strings_of(module: Path) -> Iterator[str]:
    """Yield the string literals of a module, without docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def copies_in(text: str) -> list[str]:
    return [found[0] for found in COPY.finditer(text)] + re.findall(rf'"(?:{ANY_VERSION})"', text)


def fact_names() -> set[str]:
    of_kinds = chain.from_iterable([kind, *kind["versions"]] for kind in FACTS["kinds"])
    groups: list[dict[str, Any]] = [FACTS, *FACTS["operators"].values(), *of_kinds]
    parts = [part for group in groups for part in group.values() if isinstance(part, dict)]
    nested = [part for part in parts if part.keys() & {"flag", "number", "url", "succeeded"}]
    return {name for group in [*groups, *nested] for name in group}


def test_no_template_has_a_copy_of_a_fact() -> None:
    assert {path.name: found for path in TEMPLATES if (found := copies_in(code_of(path)))} == {}


def test_no_module_of_the_plugin_has_a_copy_of_a_fact() -> None:
    found = [(path.name, text) for path in MODULES for text in strings_of(path) if COPY.search(text) or text in TELLING]

    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{{ if eq .Job.version "v2beta1" }}', id="version"),
        pytest.param("apiVersion: kubeflow.org/v1", id="api-version"),
        pytest.param("take MPIJob v2beta1", id="message"),
        pytest.param("install mpi-operator 0.4.0 or newer", id="release"),
    ],
)
def test_copy_of_a_fact_is_found(text: str) -> None:
    assert copies_in(text)


def test_every_fact_is_read() -> None:
    templates = "".join(map(code_of, TEMPLATES))
    structs = (kinds.Facts, kinds.Kind, kinds.Version, kinds.InitContainer, kinds.Port, kinds.Install, kinds.Ends)
    fields = {field.encode_name for struct in structs for field in msgspec.structs.fields(struct)}
    in_templates = {name for name in fact_names() if re.search(rf'\.{name}\b|"{name}"', templates)}

    assert len(fact_names()) > 40
    assert fact_names() - fields - in_templates == set()


def test_schema_takes_the_same_kinds_and_versions() -> None:
    job, rbac = (build.read()["properties"][name]["properties"] for name in ("job", "rbac"))
    of_operators = [kind["name"] for kind in FACTS["kinds"] if kind["versions"]]

    assert job["kind"]["enum"] == ["auto", *(kind["name"] for kind in FACTS["kinds"])]
    assert sorted(job["apiVersion"]["enum"]) == sorted(["auto", *VERSIONS])
    assert rbac["kinds"]["items"]["enum"] == of_operators


def test_new_version_of_a_kind_is_one_entry(helm: Path, tmp_path: Path) -> None:
    chart = Path(shutil.copytree(CHART, tmp_path / "distrain"))
    facts = copy.deepcopy(FACTS)
    newest = facts["kinds"][0]["versions"]
    newest.insert(0, {**newest[0], "name": "v3"})
    (chart / "files" / "kinds.json").write_text(json.dumps(facts), encoding="utf-8")

    found, known = job_of(helm, chart, "v3"), job_of(helm, CHART, "v2beta1")

    assert found["apiVersion"] == "kubeflow.org/v3"
    assert without_content(found["spec"]) == without_content(known["spec"])


def job_of(helm: Path, chart: Path, served: str) -> Yaml:
    done = run(helm, "template", "run1", str(chart), "--api-versions", f"kubeflow.org/{served}/MPIJob")
    assert done.returncode == 0, done.stderr
    return Rendered(done.stdout, parse(done.stdout), []).job


def without_content(spec: Yaml) -> str:
    """Return the spec as text, with the content hash removed.

    The ranks' environment variables contain this hash, which identifies the job.
    """
    return re.sub(r"run1-[0-9a-f]{8}", "run1", yaml.safe_dump(spec))
