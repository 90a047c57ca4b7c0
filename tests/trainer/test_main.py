"""Test the set-up before a framework's program starts."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from distrain_trainer import __main__


def test_garbage_is_collected_while_training_and_not_while_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    program, collects = ModuleType("program"), {}
    monkeypatch.setitem(sys.modules, "program", program)

    def find(_: object) -> str:
        collects["loading"] = gc.isenabled()
        return "program"

    monkeypatch.setattr(__main__, "program_of", find)
    monkeypatch.setattr(program, "main", lambda *_: collects.update(training=gc.isenabled()), raising=False)

    __main__.main(["--steps=1"])
    gc.unfreeze()

    assert collects == {"loading": False, "training": True}
