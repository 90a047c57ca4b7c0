"""Assert that the chart refuses certain values, but accepts values that are almost the same."""

from __future__ import annotations

from pathlib import Path

from tests.chart.rendering import refusal, render


def assert_refused_and_neighbour_accepted(helm: Path, folder: Path, refused: str, words: str, accepted: str) -> None:
    """Assert that Helm refuses the values `refused` with a line that begins with `words`.

    Assert that it renders `accepted`.
    """
    bad, good = folder / "bad.yaml", folder / "good.yaml"
    bad.write_text(refused, encoding="utf-8")
    good.write_text(accepted, encoding="utf-8")

    message = refusal(helm, "--values", str(bad))

    assert f"distrain: {words}" in message
    render(helm, "--values", str(good))
