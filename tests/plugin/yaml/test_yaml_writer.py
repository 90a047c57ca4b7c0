"""Test that Helm, kubectl and PyYAML read the YAML that distrain writes in the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.helm.program import Source
from distrain.helm.render import Helm
from distrain.yaml import yaml_loader, yaml_writer

# Texts that YAML readers take for a boolean, a number, null or a date unless they are quoted.
TEXTS = (
    *("y", "n", "Y", "N", "yes", "no", "on", "off", "true", "null", "~", "=", "<<", ".inf", ".nan"),
    *("1e3", "1E3", "-1e+3", "0o17", "017", "0x1F", "0b11", "1_000", "12:30", "2024-01-01", ".5", "5.", "+.5e1"),
)
VALUES: dict[str, Any] = {
    "labels": {f"key-{number}": text for number, text in enumerate([*TEXTS, "", " y", "ü", "\U0001f600"])},
    **{text: True for text in TEXTS if text not in ("<<", "=")},
}


@pytest.mark.parametrize("options", [{}, {"default_flow_style": True}, {"allow_unicode": True}], ids=str)
def test_every_text_stays_a_text(options: dict[str, Any]) -> None:
    written = yaml_writer.dump(VALUES, **options)

    assert yaml_loader.load(written) == VALUES
    assert yaml.safe_load(written) == VALUES


def test_helm_reads_what_is_written(helm4: Path, tmp_path: Path) -> None:
    # Only charts whose values have `job` and `workers` are accepted by the plugin.
    values = {**VALUES, "job": {}, "workers": {}}
    source = Source(tmp_path, ()).with_text(yaml_writer.dump(values))

    found = Helm(str(helm4)).given_values(source)

    assert json.dumps(found, sort_keys=True) == json.dumps(values, sort_keys=True)
