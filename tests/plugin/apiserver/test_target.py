"""Test the choice of a command's cluster and namespace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from distrain.apiserver import target
from distrain.apiserver.target import Overrides, Target, choose
from distrain.errors import UnreachableError, ValuesError
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
    assert _choose() == Target(str(path), "b", "from-helm", given=("", "b"))
    assert _choose(context="c", namespace="from-flag") == Target(str(path), "c", "from-flag", given=("", "c"))


def test_suggested_commands_have_the_flags_that_were_given(tmp_path: Path) -> None:
    path = str(_config(tmp_path, "my config", "a", "b", current="a"))

    found = _choose(path, context="b", namespace="team")

    assert found.helm_flags == f"--namespace team --kube-context b --kubeconfig '{path}'"
    assert found.kubectl_flags == f"--namespace team --context b --kubeconfig '{path}'"
    assert found.kubectl_cluster_flags == f" --context b --kubeconfig '{path}'"


def test_namespace_is_default_if_none_is_named(tmp_path: Path) -> None:
    assert _choose(str(_config(tmp_path, "config", "a", current="a"))).namespace == "default"


def test_home_kubeconfig_is_used_without_a_variable(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    path = write_kubeconfig(tmp_path / ".kube", SERVER, name="config")

    assert _choose() == Target(str(path), "fake", "team")


def test_first_of_several_kubeconfigs_names_the_current_context(tmp_path: Path) -> None:
    first = _config(tmp_path, "first", "a", current="a", namespace="one")
    second = _config(tmp_path, "second", "a", "b", current="b", namespace="two")
    joined = os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)])

    assert _choose(joined) == Target(joined, "a", "one", given=(joined, ""))
    assert _choose(joined, context="b").namespace == "two"


def test_missing_kubeconfig_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"KUBECONFIG: there is no file .*/nope; set it to your cluster's"):
        _choose(str(tmp_path / "nope"))


def test_broken_kubeconfig_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: [\nb")

    with pytest.raises(UnreachableError, match=r"^KUBECONFIG: .*/config cannot be read: [^\n]*$"):
        _choose(str(path))


@pytest.fixture
def in_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the files and environment variables that Kubernetes gives a pod. The user has no home directory."""
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "namespace").write_text("team\n")
    monkeypatch.setattr(target, "TOKEN", account / "token")
    monkeypatch.setattr(target, "OWN_NAMESPACE", account / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOME", "/nonexistent")
    return account


def test_pod_without_a_kubeconfig_means_the_cluster_around_it(in_pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _choose() == Target("", "", "team")
    assert _choose().in_cluster
    assert _choose(namespace="mine").namespace == "mine"

    # Helm sets these variables to "" if their flags are not set.
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("HELM_KUBECONTEXT", "")
    assert _choose().in_cluster


def test_pod_without_a_namespace_file_is_in_default(in_pod: Path) -> None:
    (in_pod / "namespace").unlink()

    assert _choose().namespace == "default"


def test_kubeconfig_wins_over_the_pods_own_account(
    in_pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _config(tmp_path, "config", "a", current="a")

    assert _choose(str(path)).context == "a"
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert _choose().context == "a"
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")
    with pytest.raises(UnreachableError, match="there is no file /no/such/file"):
        _choose()


def test_kubeconfig_at_home_wins_over_the_pods_own_account(
    in_pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube", SERVER, name="config")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert _choose().context == "fake"


def test_pod_without_an_account_needs_a_kubeconfig(in_pod: Path) -> None:
    (in_pod / "token").unlink()

    with pytest.raises(UnreachableError, match=r"there is no file /nonexistent/.kube/config"):
        _choose()


def test_unknown_context_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = _config(tmp_path, "config", "a", "b", current="a")

    words = r'^--kube-context: .*/config has no context "nope"; choose one of these: a, b$'
    with pytest.raises(ValuesError, match=words):
        _choose(str(path), context="nope")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            (),
            r"KUBECONFIG: .*/config has no current-context and lists no contexts; set it to your cluster's "
            r"kubeconfig file",
        ),
        (("a", "b"), r"--kube-context: .*/config has no current-context; choose one of these: a, b"),
    ],
)
def test_missing_current_context_is_told_with_the_next_step(tmp_path: Path, names: Sequence[str], words: str) -> None:
    path = _config(tmp_path, "config", *names, current="")

    with pytest.raises(ValuesError, match=f"^{words}$"):
        _choose(str(path))


def test_helms_flags_override_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _config(tmp_path, "config", "a", current="a")
    for name, value in {
        "APISERVER": "https://other:6443",
        "TOKEN": "secret",
        "CAFILE": "ca.pem",
        "ASUSER": "jane",
        "ASGROUPS": "a,b",
        "TLS_SERVER_NAME": "kubernetes",
        "INSECURE_SKIP_TLS_VERIFY": "false",
    }.items():
        monkeypatch.setenv(f"HELM_KUBE{name}", value)

    chosen = _choose(str(path))

    assert chosen.overrides == Overrides("https://other:6443", "secret", "ca.pem", "jane", ("a", "b"), "kubernetes")
    assert "secret" not in repr(chosen)


def test_server_alone_needs_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_KUBEAPISERVER", "https://other:6443")

    chosen = _choose()

    assert chosen == Target("", "", "default", Overrides("https://other:6443"))
    assert not chosen.in_cluster


def test_impersonation_that_helm_passes_over_in_a_pod_is_refused(in_pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_KUBETOKEN", "secret")
    assert _choose().in_cluster

    monkeypatch.setenv("HELM_KUBEASUSER", "jane")
    with pytest.raises(ValuesError, match=r"^HELM_KUBEASUSER: is set, .*; unset it, or set KUBECONFIG"):
        _choose()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("contexts: 7", "contexts: found a whole number; it needs a list", id="no-list"),
        pytest.param(
            "users: [{name: a, user: {token: 7}}]",
            "users[0].user.token: found a whole number; it needs text",
            id="number-as-token",
        ),
        pytest.param("[]", "the object: found a list; it needs a mapping of keys", id="no-object"),
    ],
)
def test_file_that_is_no_kubeconfig_is_reported_with_the_place(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(UnreachableError) as refused:
        _choose(str(path))

    assert str(refused.value) == f"KUBECONFIG: {path}: {words}; correct the file"
