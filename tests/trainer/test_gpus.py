"""Test a run that requests GPUs: it either trains on GPUs, or ends with an error that names the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer import gpus
from distrain_trainer.errors import DeviceError
from tests.trainer.conftest import ProgramInImage, assert_refused, tried_by


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTRAIN_GPUS", "2")


def test_image_for_cpus_is_named_as_the_cause() -> None:
    with pytest.raises(
        DeviceError, match=r"^workers\.gpus: each worker asks for 2 GPUs, but MXNet sees none: this image"
    ):
        gpus.require_gpus("MXNet", visible=0, is_for_gpus=False)


def test_fewer_gpus_than_asked_for_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "cause_of", lambda *_: "the cause")

    with pytest.raises(DeviceError, match=r"PyTorch sees 1: the cause\. To train on CPUs set workers\.gpus=0$"):
        gpus.require_gpus("PyTorch", visible=1, is_for_gpus=True)


@pytest.mark.parametrize(
    ("asked_for", "visible"),
    [pytest.param("2", 2, id="all"), pytest.param("2", 8, id="more"), pytest.param("", 0, id="none-asked-for")],
)
def test_enough_gpus_are_enough(monkeypatch: pytest.MonkeyPatch, asked_for: str, visible: int) -> None:
    monkeypatch.setenv("DISTRAIN_GPUS", asked_for)

    gpus.require_gpus("PyTorch", visible=visible, is_for_gpus=True)


def test_node_that_pretends_trains_on_the_cpu_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISTRAIN_PRETENDED_GPUS", "1")

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        gpus.require_gpus("PyTorch", visible=0, is_for_gpus=False)

    assert capsys.readouterr().out == "workers.gpus: this node only pretends to have GPUs; training on the CPU\n"


@pytest.mark.parametrize("text", ["garbage", "-1", "1.5"])
def test_number_of_gpus_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DISTRAIN_GPUS", text)

    with pytest.raises(DeviceError, match=rf"^workers\.gpus: DISTRAIN_GPUS is '{text}', and not a number .*; take it"):
        gpus.require_gpus("PyTorch", visible=8, is_for_gpus=True)


def test_hidden_gpus_are_told_from_missing_ones(tmp_path: Path) -> None:
    assert gpus.cause_of({"CUDA_VISIBLE_DEVICES": ""}, tmp_path).startswith("CUDA_VISIBLE_DEVICES='' hides them")


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        pytest.param("0", "hides all but 1; take", id="fewer"),
        pytest.param("0,-1,1", "hides all but 1; take", id="up-to-one-that-is-none"),
        pytest.param("1,1", "hides all but 1; take", id="twice"),
        pytest.param("NoDevFiles", "hides them; take", id="none"),
    ],
)
def test_variable_that_hides_some_of_the_gpus_is_blamed(tmp_path: Path, shown: str, said: str) -> None:
    environment = {"DISTRAIN_GPUS": "2", "CUDA_VISIBLE_DEVICES": shown}

    assert gpus.cause_of(environment, tmp_path).startswith(f"CUDA_VISIBLE_DEVICES='{shown}' {said}")


def test_variable_that_names_as_many_gpus_as_asked_for_is_no_more_than_suspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    monkeypatch.setattr(gpus, "driver_failure", lambda: "the driver's answer")

    cause = gpus.cause_of({"DISTRAIN_GPUS": "2", "CUDA_VISIBLE_DEVICES": "0,GPU-7f"}, tmp_path)

    assert cause.startswith("the driver's answer. Or CUDA_VISIBLE_DEVICES='0,GPU-7f' names missing GPUs")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param({}, "NVIDIA_VISIBLE_DEVICES is not set", id="no-plugin"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "all"}, "NVIDIA_VISIBLE_DEVICES is 'all'", id="image-alone-says-all"),
    ],
)
def test_container_without_devices_blames_the_runtime(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    cause = gpus.cause_of(environment, tmp_path)

    assert f"no /dev/nvidia* is in the container, and {said}" in cause
    assert "workers.podSpec.runtimeClassName" in cause


def test_device_without_a_driver_library_blames_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    monkeypatch.setattr("distrain_trainer.gpus.ctypes.CDLL", lambda name: raise_oserror())

    assert "libcuda.so.1 is not in the container" in gpus.cause_of({}, tmp_path)


def raise_oserror() -> None:
    raise OSError


class Driver:
    """A fake libcuda.so.1, NVIDIA's driver library, whose cuInit returns a given error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def cuInit(self, _: int) -> int:  # noqa: N802
        return self.code

    def cuDriverGetVersion(self, version: object) -> None:  # noqa: N802
        version._obj.value = 12020  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(803, "(CUDA 12.2) fails with error 803 (the image's CUDA libraries and the", id="mismatch"),
        pytest.param(46, "(CUDA 12.2) fails with error 46 (see cuInit", id="another"),
        pytest.param(0, "(CUDA 12.2) works, so the container got fewer GPUs", id="starts"),
    ],
)
def test_driver_that_answers_is_quoted(monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    monkeypatch.setattr("distrain_trainer.gpus.ctypes.CDLL", lambda name: Driver(code))

    assert said in gpus.driver_failure()


# Each framework counts the GPUs with its own code. PyTorch's code also checks which files the image contains.
@tried_by("pytorch-horovod", "mxnet-horovod")
def test_program_without_the_gpus_that_were_asked_for_ends_at_once(program: ProgramInImage) -> None:
    run = program("--steps=2", "--batch-size=2", ranks=1, env={"DISTRAIN_GPUS": "1"})

    framework = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "mxnet": "MXNet"}[program.program.framework]
    cause = rf"workers\.gpus: each worker asks for 1 GPUs, but {framework} sees none: this image holds"
    # In a TFJob, this is the output of the chief, which has no GPU. The chief's error names the worker whose log
    # contains the cause.
    if program.name == "tensorflow-ps":
        assert_refused(run, r"worker \d has ended before the training, .* its log says why", code=1)
    else:
        assert_refused(run, cause)
    assert "images/sec" not in run.stdout
