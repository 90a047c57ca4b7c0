"""Test the estimated size of the release record: which chart files it includes, and that it is never too large."""

from __future__ import annotations

import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain.helm.record_size import SMALL, record_size
from lab.paths import CHART

LETTERS = f"{string.ascii_lowercase}{string.ascii_uppercase}{string.digits}+/"


def _hexadecimal(chance: random.Random) -> str:
    return "".join(f"- name: E{n}\n  value: {chance.getrandbits(128):032x}\n" for n in range(8000))


def _decimal(chance: random.Random) -> str:
    return "".join(f"- name: E{n}\n  value: {chance.randrange(10**6)}\n" for n in range(20000))


def _letters(chance: random.Random) -> str:
    return "".join("".join(chance.choices(LETTERS, k=76)) + "\n" for _ in range(5000))


def _hosts(chance: random.Random) -> str:
    return "".join(f"rank-{n}.run1.team.svc slots=8\n" for n in range(20000))


@pytest.mark.parametrize(
    ("manifest", "size"),
    [
        pytest.param(_hexadecimal, 169_094, id="hexadecimal"),
        pytest.param(_decimal, 122_526, id="decimal"),
        pytest.param(_letters, 294_993, id="letters"),
        pytest.param(_hosts, 46_105, id="hosts"),
    ],
)
def test_estimate_is_below_the_record_and_close_to_it(
    tmp_path: Path, manifest: Callable[[random.Random], str], size: int
) -> None:
    """`size` was measured with Go 1.26.8.

    It is the length of `{}` and the manifest as JSON after gzip with BestCompression.
    """
    in_base64 = (size + 2) // 3 * 4

    estimate = record_size(tmp_path, {}, manifest(random.Random(1)))

    assert 0.93 * in_base64 < estimate <= in_base64


def test_record_of_a_small_manifest_is_not_compressed() -> None:
    assert record_size(CHART, {}, "a: b\n") == 0


@pytest.mark.parametrize("name", [".git/objects/pack", "charts/other.tgz", "files/old.bak", "docs/deep/page"])
def test_file_that_helm_does_not_record_does_not_count(tmp_path: Path, name: str) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, symlinks=False)
    # Helm ignores a byte order mark, and U+0085 ends no line of a comment.
    own = (chart / ".helmignore").read_text()
    (chart / ".helmignore").write_text(f"\ufeff/docs/*\r\n# note\x85files/*\n!files/kept\n{own}")
    before = record_size(chart, {}, "a" * SMALL)
    (chart / name).parent.mkdir(parents=True, exist_ok=True)
    (chart / name).write_bytes(random.Random(1).randbytes(2**20))
    ignored = record_size(chart, {}, "a" * SMALL)
    (chart / "files" / "kept").write_bytes(random.Random(1).randbytes(2**20))

    assert ignored == before
    assert record_size(chart, {}, "a" * SMALL) > before + 2**20
