"""Test distrain-trainer as a real process, with small archives and packages made by the test."""

from __future__ import annotations

import bz2
import fcntl
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chart.scripts.pods import SCRIPTS

PROGRAM = """\
import sys
print(sys.argv[1:], __name__)
for name in ("extra", "model"):
    try:
        print(name, __import__(name).WHERE)
    except ModuleNotFoundError:
        pass
"""
NUMPY = "WHERE = 'archive'\n"


@dataclass
class Bench:
    """A pod's folders: a folder for temporary files, the working directory, and a folder of wheels as package index."""

    folder: Path
    text: str = (SCRIPTS / "distrain-trainer").read_text()
    files: dict[str, str] = field(default_factory=lambda: {"program.py": PROGRAM, "numpy.py": NUMPY})

    def __post_init__(self) -> None:
        for name in ("tmp", "work", "wheels"):
            (self.folder / name).mkdir()

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        script = self.folder / "distrain-trainer"
        self._write(script, self.text.replace("/opt/distrain/trainer", str(self.folder)).encode())
        self._write(self.folder / "trainer.tar.bz2", archive_of({"constraints.txt": "extra==1.0\n", **self.files}))
        # With the option -S, Python does not find the packages of the tests' own environment.
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder / "wheels"), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.Popen(
            [sys.executable, "-S", str(script), *argv],
            cwd=self.folder / "work",
            env={**os.environ, "TMPDIR": str(self.folder / "tmp"), **index, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        """Write a file unless it already has this content, because a rank may be reading it."""
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(*argv, env=env)
        output, errors = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def put_wheel(self, name: str, version: str, *needs: str) -> None:
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.folder / "wheels" / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"WHERE = 'installed {version}'\n")
            wheel.writestr(
                f"{info}/METADATA",
                "".join(
                    [
                        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                        *(f"Requires-Dist: {one}\n" for one in needs),
                    ]
                ),
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


def archive_of(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return bz2.compress(packed.getvalue())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_module_runs_with_its_arguments_as_with_python_m(bench: Bench) -> None:
    (bench.folder / "work" / "model.py").write_text("WHERE = 'working directory'\n")

    run = bench.run("program", "--steps=1", "--install=no")

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "['--steps=1', '--install=no'] __main__\nmodel working directory\n"


def test_rank_waits_while_another_rank_of_its_pod_unpacks(bench: Bench) -> None:
    bench.run("program")
    (folder,) = [path for path in (bench.folder / "tmp").iterdir() if path.is_dir()]
    (folder / "program.py").write_text("print('of the other rank')\n")
    with folder.with_name(folder.name + ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.rename(bench.folder / "unfinished")
        rank = bench.start("program")
        with pytest.raises(subprocess.TimeoutExpired):
            rank.wait(timeout=2)
        (bench.folder / "unfinished").rename(folder)

    assert rank.communicate(timeout=120) == ("of the other rank\n", "")


def test_ranks_of_a_pod_unpack_once(bench: Bench) -> None:
    ranks = [bench.start("program") for _ in range(4)]
    outputs = [rank.communicate(timeout=120) for rank in ranks]

    assert outputs == [("[] __main__\n", "")] * 4
    assert len([path for path in (bench.folder / "tmp").iterdir() if path.is_dir()]) == 1


def test_part_that_a_killed_rank_has_left_is_not_used(bench: Bench) -> None:
    bench.run("program")
    (folder,) = [path for path in (bench.folder / "tmp").iterdir() if path.is_dir()]
    (folder / "program.py").unlink()
    (folder / "extra.py").write_text("WHERE = 'left behind'\n")
    folder.rename(folder.with_name(folder.name + ".part"))

    assert bench.run("program").stdout == "[] __main__\n"


def test_another_archive_is_unpacked_beside_the_former(bench: Bench) -> None:
    bench.run("program")
    bench.files["program.py"] = "print('newer')\n"

    assert bench.run("program").stdout == "newer\n"


# This test and the next test run only in the full matrix, because test_dependencies_of_pinned_packages_have_their_pins
# checks the same things.
@pytest.mark.full
def test_name_alone_takes_the_pinned_version(bench: Bench) -> None:
    bench.put_wheel("extra", "1.0")
    bench.put_wheel("extra", "2.0")

    run = bench.run("--install=extra", "program")

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "[] __main__\nextra installed 1.0\n"


@pytest.mark.full
def test_version_of_the_users_wins_over_the_pins(bench: Bench) -> None:
    bench.put_wheel("extra", "1.0")
    bench.put_wheel("extra", "2.0")

    assert bench.run("--install=extra==2.0", "program").stdout == "[] __main__\nextra installed 2.0\n"


DEPENDENCY = {"constraints.txt": "extra==1.0\nmodel==1.0\n"}


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        pytest.param(["extra"], "1.0", id="pinned", marks=pytest.mark.full),
        pytest.param(["extra", "other"], "1.0", id="beside-a-package-without-a-pin", marks=pytest.mark.full),
        pytest.param(["other==1.0", "Extra"], "1.0", id="beside-a-version-of-a-package-without-a-pin"),
        pytest.param(["extra[all]"], "1.0", id="with-extras", marks=pytest.mark.full),
        pytest.param(["extra==2.0", "other"], "2.0", id="beside-a-version-of-the-users"),
    ],
)
def test_dependencies_of_pinned_packages_have_their_pins(bench: Bench, wanted: list[str], version: str) -> None:
    bench.files.update(DEPENDENCY)
    for each in ("1.0", "2.0"):
        bench.put_wheel("extra", each, "model")
        bench.put_wheel("model", each)
    bench.put_wheel("other", "1.0")

    run = bench.run(*(f"--install={word}" for word in wanted), "program")

    assert (run.returncode, run.stdout) == (
        0, f"[] __main__\nextra installed {version}\nmodel installed {version}\n"
    ), run.stderr  # fmt: skip


def test_what_the_image_has_wins_over_what_is_installed(bench: Bench) -> None:
    bench.put_wheel("extra", "1.0")
    (bench.folder / "image").mkdir()
    (bench.folder / "image" / "extra.py").write_text("WHERE = 'image'\n")

    run = bench.run("--install=extra", "program", env={"PYTHONPATH": str(bench.folder / "image")})

    assert run.stdout == "[] __main__\nextra image\n"


@pytest.mark.parametrize(
    ("env", "code", "message"),
    [
        pytest.param(
            {}, 2, "pip failed: ERROR: Could not find a version that satisfies the requirement extra==1.0", id="unknown"
        ),
        pytest.param(
            {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1"},
            1,
            "pip cannot reach its package index ([Errno 111] Connection refused); set PIP_INDEX_URL in env to one",
            id="no-index",
        ),
    ],
)
def test_failure_of_pip_is_one_line_with_its_words(bench: Bench, env: dict[str, str], code: int, message: str) -> None:
    run = bench.run("--install=extra", "program", env=env)

    assert run.returncode == code
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("distrain: ")]
    assert line.startswith(f"distrain: trainer.install: {message}")
    assert run.stdout == ""


def test_image_without_numpy_is_named(bench: Bench) -> None:
    del bench.files["numpy.py"]

    run = bench.run("program")

    words = "image.repository: this image has no numpy, which the trainer needs; use another image"
    assert (run.returncode, run.stderr) == (2, f"distrain: {words}\n")


def test_image_with_an_old_python_is_named(bench: Bench) -> None:
    bench.text = bench.text.replace("PYTHON = (3, 10)", "PYTHON = (3, 99)")

    run = bench.run("program")

    found = sys.version.split()[0]
    words = f"the python3 of this image is {found}, and the trainer needs 3.99 or newer; use another image"
    assert (run.returncode, run.stderr) == (2, f"distrain: image.repository: {words}\n")
