"""Test how docs/ci/plan_changes.py handles symbolic links and submodules."""

from __future__ import annotations

import pytest

from tests.plugin.ci.planned import FOUR, TWO, Repository


def _link(repository: Repository, target: str, path: str = "runs/linked.yaml") -> None:
    (repository.folder / path).symlink_to(target)
    repository.commit()


def test_link_is_followed_and_another_content_of_its_file_changes_the_run(repository: Repository) -> None:
    repository.git("checkout", "main")
    repository.commit(shared__base=TWO)
    _link(repository, "../shared/base.yaml")
    repository.git("checkout", "-b", "linked")
    repository.commit(shared__base=FOUR)

    assert repository.plan().heads == ["`linked`: rescales live"]


def test_link_of_a_common_file_is_followed(repository: Repository) -> None:
    repository.git("checkout", "main")
    repository.commit(shared__base="trainer: {steps: 600}\n")
    _link(repository, "shared/base.yaml", "common.yaml")
    repository.git("checkout", "-b", "linked")
    repository.commit(shared__base="trainer: {steps: 900}\n")

    assert "  - `trainer.steps`: `600 -> 900`" in repository.plan("--common", "common.yaml").out


@pytest.mark.parametrize("target", ["/etc/hostname", "../../team/runs/run1.yaml", "linked.yaml", "nothing", "../runs"])
def test_link_out_of_the_repository_is_not_read(repository: Repository, target: str) -> None:
    _link(repository, target)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`linked`: refused"])
    assert "a link that leads to no file in git" in planned.out


def test_submodule_is_refused_and_the_other_runs_are_planned(repository: Repository) -> None:
    repository.commit(runs__run1=FOUR)
    head = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},runs/sub.yaml")
    repository.git("commit", "--message", "a submodule")

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`sub`: refused", "`run1`: rescales live"])


def test_file_that_was_a_link_out_of_the_repository_is_planned_as_a_new_run(repository: Repository) -> None:
    repository.git("checkout", "main")
    _link(repository, "/etc/hostname")
    repository.git("checkout", "-b", "mended")
    repository.commit(runs__linked=None)
    repository.commit(runs__linked=TWO)

    assert repository.plan().heads == ["`linked`: a new run"]
