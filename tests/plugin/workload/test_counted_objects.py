"""Test which additional objects of a release quotas count, such as the Secret with Helm's record."""

from __future__ import annotations

import pytest

from distrain.workload import counted_objects


@pytest.mark.parametrize(
    ("revision", "history_max", "is_added"),
    [
        pytest.param(1, 10, True, id="first"),
        pytest.param(10, 10, True, id="last-that-is-kept"),
        pytest.param(11, 10, False, id="oldest-is-deleted"),
        pytest.param(11, 0, True, id="all-are-kept"),
        pytest.param(2, 1, True, id="deployed-is-kept"),
        pytest.param(3, 1, False, id="deployed-and-new-are-kept"),
    ],
)
def test_revision_adds_a_record_until_helm_deletes_an_older_record(
    revision: int, history_max: int, is_added: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HELM_DRIVER", raising=False)

    found = [each.resource.name for each in counted_objects.of_release("run1", revision, history_max)]

    assert found == [f"sh.helm.release.v1.run1.v{revision}"] * is_added
