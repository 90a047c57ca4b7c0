"""Test what the pods' scripts say of a killed program, and what they take up from an earlier launcher."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart.scripts.pods import load


@pytest.mark.parametrize(
    ("text", "are_elsewhere", "who"),
    [
        pytest.param("kill -9 $$", False, "sh", id="own"),
        pytest.param("exit 137", False, "sh", id="own-shell"),
        pytest.param("kill -9 $$", True, "sh", id="mpirun"),
        pytest.param("exit 137", True, "a rank", id="rank-of-mpirun"),
    ],
)
def test_killed_program_is_named(text: str, are_elsewhere: bool, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    monkeypatch.setattr(module, "oom_kills", lambda: None)

    program = module.Program(["sh", "-c", text], dict(os.environ), ["train.py"], are_elsewhere)
    program.follow(False)
    ended = program.end()

    assert ended == (137, f"{who} was killed by signal 9, as when memory runs out; see workers.memory", False)


def test_failures_are_taken_up_from_the_longest_list_that_a_launcher_wrote(tmp_path: Path) -> None:
    module = load("distrain_keepers.py")
    texts = {
        "one": '[[1.0], "first", "last"]',
        "two": '[[1.0, 2.0], "first", "last"]',
        "cut": '[[1.0, 2.0, 3.0], "fir',
        "other": '[[1, 2, 3], 5, "last"]',
        "another": '[[1, 2, 3], "first", null]',
        "words": '[["x", "y", "z"], "first", "last"]',
        "number": "7",
        "silent": "",
    }
    way = SimpleNamespace(tries_at_once=2, output=lambda host, _: texts[host])

    def taken_up(*hosts: str) -> str:
        (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
        return str(module.earlier_restarts(way, str(tmp_path / "hostfile")))

    for others in ("cut", "other", "another", "words", "number", "silent"):
        assert taken_up("one", others, "two") == texts["two"]
    assert taken_up("silent") == ""
