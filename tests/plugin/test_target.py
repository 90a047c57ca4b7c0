"""Which cluster and namespace a command is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from distrain.errors import UnreachableError, ValuesError
from distrain.target import Target, choose
from tests.plugin.fake_api import write_kubeconfig

SERVER = "https://127.0.0.1:6443"


def _choose(kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None) -> Target:
    return choose(kubeconfig=kubeconfig, context=context, namespace=namespace)


def _config(folder: Path, name: str, *contexts: str, current: str = "", namespace: str = "") -> Path:
    entries = [{"name": context, "context": {"cluster": context, "namespace": namespace}} for context in contexts]
    path = folder / name
    path.write_text(yaml.safe_dump({"contexts": entries, "current-context": current}))
    return path


def test_flags_win_over_helm_which_wins_over_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _config(tmp_path, "config", "a", "b", "c", current="a", namespace="from-config")
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert _choose() == Target(str(path), "a", "from-config")

    monkeypatch.setenv("HELM_KUBECONTEXT", "b")
    monkeypatch.setenv("HELM_NAMESPACE", "from-helm")
    assert _choose() == Target(str(path), "b", "from-helm")
    assert _choose(context="c", namespace="from-flag") == Target(str(path), "c", "from-flag")


def test_namespace_is_default_where_nothing_names_one(tmp_path: Path) -> None:
    assert _choose(str(_config(tmp_path, "config", "a", current="a"))).namespace == "default"


def test_home_kubeconfig_is_used_without_a_variable(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    path = write_kubeconfig(tmp_path / ".kube", SERVER, name="config")

    assert _choose() == Target(str(path), "fake", "team")


def test_first_of_several_kubeconfigs_names_the_current_context(tmp_path: Path) -> None:
    first = _config(tmp_path, "first", "a", current="a", namespace="one")
    second = _config(tmp_path, "second", "a", "b", current="b", namespace="two")
    joined = os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)])

    assert _choose(joined) == Target(joined, "a", "one")
    assert _choose(joined, context="b").namespace == "two"


def test_missing_kubeconfig_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"KUBECONFIG: there is no file .*/nope; point it to your cluster's"):
        _choose(str(tmp_path / "nope"))


def test_broken_kubeconfig_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: [\nb")

    with pytest.raises(UnreachableError, match=r"^KUBECONFIG: .*/config cannot be read: [^\n]*$"):
        _choose(str(path))


def test_unknown_context_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = _config(tmp_path, "config", "a", "b", current="a")

    with pytest.raises(ValuesError, match=r'--kube-context: .*/config has no context "nope"; it has a, b$'):
        _choose(str(path), context="nope")


def test_credentials_that_only_helm_would_follow_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _config(tmp_path, "config", "a", current="a")
    monkeypatch.setenv("HELM_KUBEINSECURE_SKIP_TLS_VERIFY", "false")
    monkeypatch.setenv("HELM_KUBETOKEN", "")
    assert _choose(str(path)).context == "a"

    monkeypatch.setenv("HELM_KUBETOKEN", "secret")
    with pytest.raises(ValuesError, match=r"^HELM_KUBETOKEN: is set, and goes past the kubeconfig; put it into a"):
        _choose(str(path))
