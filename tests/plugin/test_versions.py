"""One version for all that is released together."""

from __future__ import annotations

import yaml

import distrain
from lab.paths import CHART, REPOSITORY


def test_chart_image_and_plugin_carry_the_package_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    plugin = yaml.safe_load((REPOSITORY / "plugin" / "plugin.yaml").read_text())

    assert {chart["version"], chart["appVersion"], plugin["version"]} == {distrain.__version__}
