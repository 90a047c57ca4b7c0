"""Test the URL paths of API objects."""

from __future__ import annotations

from distrain.apiserver import paths


def test_object_is_below_its_api_version_and_namespace() -> None:
    assert paths.namespace("team") == "/api/v1/namespaces/team"
    assert paths.pod("team", "run1-worker-0") == "/api/v1/namespaces/team/pods/run1-worker-0"
    assert paths.of_kind("batch/v1", "Job", "team") == "/apis/batch/v1/namespaces/team/jobs"
    assert paths.of_kind("v1", "Secret", "team", "keys") == "/api/v1/namespaces/team/secrets/keys"


def test_name_adds_neither_a_step_nor_a_query() -> None:
    path = paths.of_kind("v1", "Secret", "team a", "a/../b?x=1#y")

    assert path == "/api/v1/namespaces/team%20a/secrets/a%2F..%2Fb%3Fx%3D1%23y"
