"""List the parts that `make bench-mutants` mutates, in the order of the bench, with their sources and tests.

Their tests need neither the trainer's images nor a cluster. For each mutant, choice.py chooses some of the part's
tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.paths import REPOSITORY


@dataclass(frozen=True)
class Part:
    """A part: glob patterns of its sources and tests, relative to the repository, and the number of mutants to draw."""

    name: str
    count: int
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    # False for scripts and templates. They run in other processes, where coverage cannot record the lines that a test
    # executes.
    is_traced: bool = True


FILES = "charts/distrain/files"
TEMPLATES = "charts/distrain/templates"
RENDERED = ("tests/chart/templates/**/test_*.py", "tests/chart/values/test_values_files.py")

PARTS = (
    Part(
        "checkpoint",
        200,
        ("trainer/distrain_trainer/checkpoint/*.py",),
        tuple(
            f"tests/trainer/checkpoint/test_{name}.py"
            for name in (
                "arrays",
                "failing_ranks",
                "files",
                "finished",
                "layout",
                "lease",
                "limits",
                "manifest",
                "names",
                "outage",
                "reader",
                "retries",
                "run_lease",
                "together",
                "writer",
            )
        ),
    ),
    Part(
        "data order",
        100,
        tuple(
            f"trainer/distrain_trainer/data/{name}.py"
            for name in ("loader", "position", "sampler", "shards", "splits", "tars")
        ),
        ("tests/trainer/data/test_*.py", "tests/trainer/recipe/test_schedule.py"),
    ),
    Part(
        "scheduler",
        150,
        ("plugin/distrain/scheduler/*.py",),
        ("tests/plugin/scheduler/test_*.py", "tests/plugin/check/**/test_*.py"),
    ),
    Part(
        "admission and quota",
        120,
        ("plugin/distrain/admission/*.py",),
        (
            "tests/plugin/admission/**/test_*.py",
            "tests/plugin/check/test_dependencies.py",
            "tests/plugin/check/test_manifest_policies.py",
            "tests/plugin/check/volumes/test_manifest_storage.py",
            "tests/plugin/check/volumes/test_new_claims.py",
        ),
    ),
    Part(
        "solver",
        120,
        ("plugin/distrain/solver/*.py",),
        ("tests/plugin/solver/test_*.py", "tests/plugin/check/test_report.py"),
    ),
    Part(
        "derive",
        80,
        ("plugin/distrain/derive/*.py",),
        tuple(
            f"tests/plugin/{name}.py"
            for name in ("derive/test_*", "cloud/test_instances", "commands/test_template", "release/test_size")
        ),
    ),
    Part("release", 90, ("plugin/distrain/release/*.py",), ("tests/plugin/release/**/test_*.py",)),
    Part(
        "launcher's script",
        50,
        (f"{FILES}/distrain-launch", f"{FILES}/distrain_watch.py", f"{FILES}/distrain_workers.py"),
        ("tests/chart/scripts/launch/test_*.py",),
        is_traced=False,
    ),
    Part(
        "worker's script",
        40,
        (f"{FILES}/distrain-worker", f"{FILES}/distrain_program.py", f"{FILES}/distrain_keepers.py"),
        (
            "tests/chart/scripts/worker/test_*.py",
            *(f"tests/chart/scripts/test_{name}.py" for name in ("program", "supervised", "distrain_*run")),
        ),
        is_traced=False,
    ),
    Part(
        "chart's rules",
        50,
        (f"{TEMPLATES}/validate/*.tpl",),
        tuple(
            f"tests/chart/templates/{name}.py"
            for name in (
                "validation/test_*",
                "delivery/test_delivery",
                "hooks/test_preflight",
                "kinds/test_kinds",
                "objects/test_*",
                "pods/test_networks",
                "pods/test_s3",
                "test_podmonitor",
                "test_rbac",
                "umbrella/test_*",
            )
        ),
        is_traced=False,
    ),
    Part(
        "chart's helpers",
        50,
        tuple(f"{TEMPLATES}/{folder}/*.tpl" for folder in ("context", "job", "pod", "metadata", "hooks")),
        RENDERED,
        is_traced=False,
    ),
)


def files_of(patterns: tuple[str, ...]) -> Iterator[Path]:
    """Return each file that matches a pattern once, as a path relative to the repository."""
    found = {path.relative_to(REPOSITORY): None for pattern in patterns for path in sorted(REPOSITORY.glob(pattern))}
    return iter(found)
