"""Test the packages in an OCI registry with TLS and a login: the chart, and the plugin for Helm 4."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import registry
from lab.builds import package
from lab.builds.golang import binary
from lab.paths import CHART, REPOSITORY
from lab.registry import USER, Registry
from tests.plugin.package import signing
from tests.registry_user import User

PLUGIN = REPOSITORY / "plugin"
PLUGIN_TYPE = "application/vnd.helm.plugin.v1+json"
# Helm pulls only files of certain media types. A file with another type is not pulled, not even the .prov file.
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"

pytestmark = pytest.mark.install


@dataclass(frozen=True)
class Packages:
    """The signed archives of the chart and the plugin, and the keys that verify them."""

    chart: Path
    plugin: Path
    keyring: Path


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    folder = tmp_path_factory.mktemp("packages")
    chart, plugin = package.write_chart(folder / "chart"), package.write(folder / "plugin")
    keyring = signing.sign({chart: CHART / "Chart.yaml", plugin: PLUGIN / "plugin.yaml"}, folder)
    return Packages(chart, plugin, keyring)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry.serve(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture
def user(helm: Path, server: Registry, tmp_path: Path) -> User:
    return User(helm, tmp_path, server)


@pytest.fixture
def user4(helm4: Path, server: Registry, tmp_path: Path) -> User:
    return User(helm4, tmp_path, server)


def test_same_files_make_the_same_chart(packages: Packages, tmp_path: Path) -> None:
    assert package.write_chart(tmp_path).read_bytes() == packages.chart.read_bytes()


@pytest.mark.full
def test_same_files_make_the_same_wheel(tmp_path: Path) -> None:
    one, other = (package.write_wheel(tmp_path / name) for name in ("one", "other"))

    assert one.name == "distrain-0.1.0-py3-none-any.whl"
    assert one.read_bytes() == other.read_bytes()


def test_signed_chart_is_rendered_from_the_registry_as_from_its_folder(user: User, packages: Packages) -> None:
    user.log_in()
    pushed = user.trusting("push", str(packages.chart), user.charts)
    chart = (f"{user.charts}/distrain", "--version", "0.1.0")
    verified = ("--verify", "--keyring", str(packages.keyring))
    rendered = user.trusting("template", "run1", *chart, *verified)

    assert pushed.returncode == 0, pushed.stderr
    assert user.run("verify", str(packages.chart), "--keyring", str(packages.keyring)).returncode == 0
    assert rendered.returncode == 0, rendered.stderr
    # Helm 3 prints the pulled package before the manifest.
    assert rendered.stdout.endswith(user.run("template", "run1", str(CHART)).stdout)


def test_changed_chart_is_refused(user: User, packages: Packages, tmp_path: Path) -> None:
    changed = tmp_path / packages.chart.name
    changed.write_bytes(packages.chart.read_bytes() + b"x")
    changed.with_name(f"{changed.name}.prov").write_bytes(Path(f"{packages.chart}.prov").read_bytes())

    refused = user.run("verify", str(changed), "--keyring", str(packages.keyring))

    assert refused.returncode == 1
    assert "sha256 sum does not match" in refused.stderr


def test_registry_refuses_who_has_not_logged_in(user: User, packages: Packages) -> None:
    refused = user.trusting("push", str(packages.chart), user.charts)

    assert refused.returncode == 1
    assert "basic credential not found" in refused.stderr


def test_helm_4_installs_the_signed_plugin_from_the_registry(
    user4: User, packages: Packages, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", environment["PATH"])
    reference = f"{user4.registry.host}/plugins/distrain:0.1.0"
    login = ["--username", USER, "--password-stdin", "--ca-file", str(user4.registry.authority)]
    files = [f"{packages.plugin.name}{end}:{LAYER_TYPE}" for end in ("", ".prov")]
    push = [str(binary("oras")), "push", *login, "--artifact-type", PLUGIN_TYPE, reference, *files]
    subprocess.run(push, cwd=packages.plugin.parent, input=user4.registry.password, text=True, check=True)
    user4.log_in()

    installed = user4.trusting("plugin", "install", f"oci://{reference}", "--keyring", str(packages.keyring))
    works = user4.run("distrain", "--version")

    assert installed.returncode == 0, installed.stderr
    assert "Signed by: distrain test" in installed.stdout
    assert works.stdout == "0.1.0\n"
