"""Test which ServiceAccount each pod uses, and which pods get its token."""

from __future__ import annotations

from pathlib import Path

from tests.chart.documents import RUN1
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import render_with


@every_kind
def test_only_pods_that_call_the_api_have_its_token(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    callers = {role for role, pod in rendered.pods().items() if pod["automountServiceAccountToken"]}

    assert callers == {"mpijob-v1": {"Launcher"}, "mpijob-v1alpha2": {"Launcher"}, "plain": {"Keygen"}}.get(kind, set())


@every_kind
def test_no_pod_uses_the_default_account(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    assert rendered.find("ServiceAccount", "run1")["automountServiceAccountToken"] is False
    for role, pod in rendered.pods().items():
        if role == "Launcher" and kind in ("mpijob-v1", "mpijob-v1alpha2"):
            assert "serviceAccountName" not in pod  # The operator creates the ServiceAccount <job>-launcher.
        else:
            assert pod["serviceAccountName"] == (f"run1-keygen-{RUN1}" if role == "Keygen" else "run1")


@every_kind
def test_service_account_of_the_user_is_used_unchanged(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], "serviceAccountName=cloud"))

    assert {pod["serviceAccountName"] for role, pod in rendered.pods().items() if role != "Keygen"} == {"cloud"}
    names = {one["metadata"]["name"] for one in rendered.documents if one["kind"] == "ServiceAccount"}
    assert names <= {f"run1-keygen-{RUN1}"}


@every_kind
def test_without_rbac_the_chart_makes_no_account(helm3: Path, kind: str) -> None:
    keys = ("ssh.secretName=keys",) if kind == "plain" else ()

    rendered = render_with(helm3, (*KINDS[kind], *keys, "rbac.create=false"))

    assert not {"ServiceAccount", "Role", "RoleBinding"} & set(rendered.kinds())
    assert [pod for pod in rendered.pods().values() if "serviceAccountName" in pod] == []
