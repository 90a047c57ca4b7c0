"""Compare the output of `cluster` for each cloud with a golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.cloud.making import PRICES, WHOLE, Make

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("eks", "--instance p4d.24xlarge --efa --zone us-east-1a,us-east-1b --prices prices", id="eks"),
        pytest.param("gke", "--instance a2-highgpu-8g --placement-group", id="gke"),
        pytest.param("aks", "--instance Standard_ND96asr_v4 --zone 1", id="aks"),
    ],
)
def test_text_is_that_of_the_golden_file(make: Make, tmp_path: Path, name: str, arguments: str) -> None:
    (tmp_path / "prices").write_text(PRICES)

    outcome = make(WHOLE, *arguments.split())

    assert outcome.code == 0
    assert outcome.out == (GOLDEN / f"{name}.txt").read_text()
