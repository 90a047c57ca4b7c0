"""Test that an image is built only if its content changes.

Also test that a container runtime can load an image that contains nothing but a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import IO

import pytest

from lab.builds import debian, docker_archive, images
from lab.builds.containers import run_in_image
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.waiting import wait_until

DEBIAN_SOURCES = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
OLD_SOURCES = "deb http://mirror.example/debian bookworm main contrib\n"
VENDOR = "deb [signed-by=/usr/share/keyrings/vendor.gpg] https://apt.vendor.example bookworm main\n"
OTHER_SUITE = "deb https://apt.vendor.example bookworm-pgdg main\n"
SWITCHED_OFF = "# deb http://mirror.example/debian bookworm main\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "ARCHIVES", tmp_path / "images")
    monkeypatch.setattr(images, "LOGS", tmp_path / "logs")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "pause"
    path.write_bytes(b"\x7fELF")
    return path


def member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    content = archive.extractfile(name)
    assert content is not None
    return content


def test_image_of_programs_holds_them_executable(program: Path) -> None:
    image = images.scratch_image("docker.io/distrain/pause:0.1.0", {"/bin/pause": program}, ["/bin/pause"])

    with tarfile.open(image.archive) as archive:
        [manifest] = json.load(member(archive, "manifest.json"))
        config = json.load(member(archive, manifest["Config"]))
        with tarfile.open(fileobj=member(archive, manifest["Layers"][0])) as layer:
            inside = layer.getmember("bin/pause")
    assert manifest["RepoTags"] == [image.reference] == ["docker.io/distrain/pause:0.1.0"]
    assert config["config"]["Entrypoint"] == ["/bin/pause"]
    assert (inside.mode, inside.size) == (0o755, 4)


def test_same_content_is_built_once(program: Path) -> None:
    first = images.scratch_image("docker.io/distrain/pause:0.1.0", {"/pause": program}, ["/pause"])
    os.utime(first.archive, (1, 1))

    second = images.scratch_image("docker.io/distrain/pause:0.1.0", {"/pause": program}, ["/pause"])

    assert second == first
    assert second.archive.stat().st_mtime == 1


def test_other_content_is_another_archive_and_only_the_newest_stay(program: Path) -> None:
    archives: list[Path] = []
    for content in (b"one", b"two", b"three"):
        program.write_bytes(content)
        image = images.scratch_image("docker.io/distrain/pause:0.1.0", {"/pause": program}, ["/pause"])
        os.utime(image.archive, (len(archives), len(archives)))
        archives.append(image.archive)

    assert len(set(archives)) == 3
    assert [archive.exists() for archive in archives] == [False, True, True]


def test_interrupted_build_leaves_no_archive(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(archive: Path, *_: object) -> None:
        archive.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(docker_archive, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            images.scratch_image("docker.io/distrain/pause:0.1.0", {"/pause": program}, ["/pause"])

    image = images.scratch_image("docker.io/distrain/pause:0.1.0", {"/pause": program}, ["/pause"])
    assert tarfile.is_tarfile(image.archive)


@pytest.mark.parametrize(
    ("source", "is_debian"),
    [
        pytest.param(DEBIAN_SOURCES, True, id="deb822"),
        pytest.param(OLD_SOURCES, True, id="one-line"),
        pytest.param(VENDOR, False, id="vendor-with-own-key"),
        pytest.param(OTHER_SUITE, False, id="vendor-with-own-suite"),
        pytest.param(SWITCHED_OFF, False, id="commented-out"),
    ],
)
def test_only_debians_own_sources_go_into_the_image(source: str, is_debian: bool) -> None:
    assert debian.is_debian(source) is is_debian


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A parent folder of the repository may also have the name distrain. It must not be mistaken for the folder with the
    # code.
    folder = tmp_path / "distrain"
    for name in ("trainer/distrain_trainer/data.py", "plugin/distrain/cli.py", "plugin/requirements.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("one = 1\n")
    for image in ("tensorflow", "pytorch-cuda"):
        (folder / "trainer" / f"{image}.Dockerfile").write_text("FROM scratch\n")
    (folder / ".dockerignore").touch()
    monkeypatch.setattr(images, "REPOSITORY", folder)
    monkeypatch.setattr(images, "_base_key", lambda: "base")
    return folder


@pytest.mark.parametrize(
    ("changed", "makes_an_image", "makes_an_environment"),
    [
        pytest.param("trainer/distrain_trainer/data.py", True, False, id="trainer"),
        pytest.param("plugin/distrain/cli.py", True, False, id="plugin"),
        pytest.param("trainer/tensorflow.Dockerfile", True, True, id="dockerfile"),
        pytest.param("trainer/requirements/tensorflow-cpu.txt", True, True, id="requirements"),
        pytest.param("plugin/requirements.txt", True, True, id="plugins-requirements"),
        pytest.param("trainer/plugin/distrain", True, True, id="plugins-start"),
        pytest.param(".dockerignore", True, True, id="ignored-files"),
        pytest.param("trainer/mxnet.Dockerfile", False, False, id="another-framework"),
        pytest.param("trainer/distrain_trainer/__pycache__/data.pyc", False, False, id="compiled-code"),
        pytest.param("plugin/.venv/cli.py", False, False, id="plugins-environment"),
        pytest.param("README.md", False, False, id="what-is-not-copied"),
    ],
)
def test_change_makes_what_is_built_from_it_anew(
    changed: str, makes_an_image: bool, makes_an_environment: bool, repository: Path
) -> None:
    def keys() -> tuple[str, str]:
        return images._trainer_key("tensorflow"), images._trainer_key("tensorflow", without=images.CODE)

    image, environment = keys()
    path = repository / changed
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed\n")

    new_image, new_environment = keys()

    assert (new_image != image) is makes_an_image
    assert (new_environment != environment) is makes_an_environment


def test_variant_is_made_from_the_files_of_its_framework_too(repository: Path) -> None:
    before = {name: images._trainer_key(name) for name in ("pytorch-cuda", "tensorflow")}
    (repository / "trainer" / "requirements").mkdir()
    (repository / "trainer" / "requirements" / "pytorch-cuda.txt").write_text("changed\n")

    after = {name: images._trainer_key(name) for name in before}

    assert after["pytorch-cuda"] != before["pytorch-cuda"]
    assert after["tensorflow"] == before["tensorflow"]


def test_framework_without_an_image_is_refused() -> None:
    with pytest.raises(
        LabError, match=r"caffe\.Dockerfile: no such file, so there is no image for the framework caffe"
    ):
        images.trainer_image("caffe")


def test_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(LabError, match=r"buildah is not installed: run `apt-get install buildah"):
        images.trainer_environment("tensorflow")


def test_failed_build_shows_the_end_of_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "for n in $(seq 30); do echo STEP $n; done; exit 3"

    with pytest.raises(LabError) as caught:
        images._logged("demo", ["sh", "-c", script])

    message = str(caught.value)
    assert message.startswith(
        f"building demo failed (exit code 3); the whole log is {tmp_path}/logs/demo.log:\nSTEP 11\n"
    )
    assert message.endswith("STEP 30")
    assert "STEP 7\n" in capsys.readouterr().out


def test_command_that_does_not_end_is_ended_with_all_it_started() -> None:
    environment = images.trainer_environment("tensorflow")

    with pytest.raises(subprocess.TimeoutExpired):
        run_in_image(environment, ["sh", "-c", "sleep 4321 & sleep 4321"], timeout=3)

    def has_ended() -> bool:
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return "sleep 4321" not in running.splitlines()

    # The kernel kills the processes only after the command itself has ended.
    wait_until("the end of all that the command started", has_ended, seconds=60)


@pytest.mark.parametrize("command", [["distrain"], ["python3", "-m", "distrain"]], ids=["distrain", "module"])
def test_image_runs_distrain_with_packages_of_its_own(command: list[str]) -> None:
    code = {Path(REPOSITORY / "plugin" / "distrain"): "/opt/plugin/lib/python3.11/site-packages/distrain"}

    done = run_in_image(images.trainer_environment("tensorflow"), [*command, "check", "--help"], mounts=code)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: distrain check ")


def test_image_keeps_the_two_sets_of_packages_apart() -> None:
    script = "import importlib.util as util; print(util.find_spec('pyhelm3') is None, util.find_spec('numpy') is None)"

    done = {
        python: run_in_image(images.trainer_environment("tensorflow"), [python, "-c", script]).stdout
        for python in ("/opt/venv/bin/python3", "/opt/plugin/bin/python3")
    }

    assert done == {"/opt/venv/bin/python3": "True False\n", "/opt/plugin/bin/python3": "False True\n"}
