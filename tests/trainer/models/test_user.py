"""Test that a user's model is loaded.

Each mistake in the model must give one error line with the file and the line number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.errors import ArgumentError
from distrain_trainer.models.user import build, find, is_users, require_logits, require_used

Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes the source of the module `nets` to the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(source: str) -> None:
        (tmp_path / "nets.py").write_text(source)

    return write


@pytest.mark.parametrize(
    ("name", "users"),
    [
        pytest.param("nets:small", True, id="module"),
        pytest.param("my_nets.of_2024:small_net", True, id="in-a-package"),
        pytest.param("mnist", False, id="one-of-ours"),
        pytest.param("nets:", False, id="no-function"),
        pytest.param("my-nets:small", False, id="no-identifier"),
        pytest.param("nets:small()", False, id="a-call"),
    ],
)
def test_name_of_a_users_model_is_told(name: str, users: bool) -> None:
    assert is_users(name) is users


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def small(shape, classes): return [*shape, classes]", id="function"),
        pytest.param("def small(size, count, *, wide=1): return [*size, count]", id="other-names-and-a-default"),
        pytest.param("class small(list):\n  def __init__(self, shape, n): super().__init__([*shape, n])", id="class"),
        pytest.param("small = lambda *all: [*all[0], all[1]]", id="any-arguments"),
    ],
)
def test_function_in_the_working_directory_makes_the_model(write: Write, source: str) -> None:
    write(source)

    assert build("nets:small", shape=(8, 9, 1), classes=10, kind=list, kind_name="list") == [8, 9, 1, 10]


def test_module_in_a_package_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_nets").mkdir()
    (tmp_path / "my_nets" / "wide.py").write_text("def net(shape, classes): return 'wide'")
    monkeypatch.syspath_prepend(tmp_path)

    assert find("my_nets.wide:net")((8, 8, 1), 10) == "wide"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("x = 1\ny = 1 / 0", r"nets does not import \(.*nets\.py, line 2\): ZeroDivision", id="raises"),
        pytest.param("def small(:", r"nets does not import \(.*nets\.py, line 1\): SyntaxError: ", id="syntax"),
        pytest.param(
            "import absent_package", r"nets does not import \(.*line 1\): ModuleNotFoundError: No module", id="needs"
        ),
        pytest.param(
            "from os import walk\ndef big(a, b): 1", r".*nets\.py has no small \(its functions: big\); ", id="absent"
        ),
        pytest.param("small = 3", r"nets:small is of the type int and cannot be called; name a function", id="no-call"),
        pytest.param(
            "def small(shape): 1",
            r"nets:small\(shape\) cannot be called with \(shape, classes\): too many positional",
            id="one-argument",
        ),
        pytest.param("def small(a, b, c): 1", r"nets:small\(a, b, c\) cannot .* missing .*'c'", id="three-arguments"),
        pytest.param("def small(*, shape, classes): 1", r"nets:small\(\*, shape, classes\) cannot", id="by-name-alone"),
        pytest.param("def small(a, b): pass", r"nets:small returned nothing, and the model must be a list;", id="none"),
        pytest.param("def small(a, b): return {}", r"nets:small returned a builtins\.dict, and the", id="other-type"),
        pytest.param(
            "def small(a, b):\n  return a[7]",
            r"nets:small\(\(8, 8, 1\), 10\) failed \(.*nets\.py, line 2\): IndexError: tuple index",
            id="fails",
        ),
    ],
)
def test_mistake_in_the_users_module_is_told_in_a_line(write: Write, source: str, message: str) -> None:
    write(source)

    with pytest.raises(ArgumentError, match=f"^trainer\\.model: {message}"):
        build("nets:small", shape=(8, 8, 1), classes=10, kind=list, kind_name="list")


@pytest.mark.parametrize("name", ["absent_nets:small", "absent.nets:small", "json.absent:small"])
def test_module_that_is_not_there_is_told_with_where_it_was_looked_for(
    name: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/models")

    module = name.partition(":")[0]
    with pytest.raises(ArgumentError, match=f"there is no module {module} for {name} in {tmp_path} or PYTHONPATH=/mod"):
        find(name)


def test_output_that_is_no_logit_per_class_is_refused() -> None:
    require_logits("nets:small", shape=(8, 8, 1), classes=10, forward=lambda: (1, 10))

    with pytest.raises(ArgumentError, match=r"nets:small returns shape \(1, 5\) for one image, but the data has 10 "):
        require_logits("nets:small", shape=(8, 8, 1), classes=10, forward=lambda: (1, 5))


def test_model_that_cannot_take_an_image_is_refused() -> None:
    def forward() -> Any:
        raise ValueError("shapes\n\n   do not match\nstack: ...")

    message = r"the model of nets:small, given an image of 8x8x1, failed: ValueError: shapes do not match; correct it"
    with pytest.raises(ArgumentError, match=message):
        require_logits("nets:small", shape=(8, 8, 1), classes=10, forward=forward)


def test_parameter_that_is_not_used_is_named() -> None:
    require_used("nets:small", ["a.weight", "b.weight"], {"b.weight", "a.weight"})

    with pytest.raises(
        ArgumentError, match=r"the forward pass of nets:small does not use its parameter b\.weight, but"
    ):
        require_used("nets:small", ["a.weight", "b.weight"], {"a.weight"})
