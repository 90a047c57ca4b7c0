"""Test what the plots of a report show, and that the page stays small for any record."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from distrain.report import numbers, page, plot, summary
from distrain.report.panels import MOST_ROWS, Panel, panels
from tests.matrix import one_of
from tests.plugin.report import records
from tests.plugin.report.records import event, start, step

MOST_BYTES = 1_000_000


def _panel(name: str, *runs: records.Run) -> Panel:
    return next(panel for panel in panels(runs) if panel.name == name)


def test_line_is_interrupted_between_two_starts() -> None:
    panel = _panel("loss-samples", records.run(records.rescaled()))

    [line] = panel.series
    assert line.places.index(None) == 10
    assert line.places[9] == (12_800, pytest.approx(0.1 + 2 * math.exp(-2.56)))
    assert panel.words.startswith("Loss begins at 1.648, ends at ")


def test_loss_that_is_not_a_number_leaves_a_gap() -> None:
    lines = [start(0, 2), *(step(n, n, 64 * n, loss=math.nan if n == 2 else 1.0) for n in (1, 2, 3))]

    [line] = _panel("loss-samples", records.run(lines)).series

    assert line.places == ((64, 1.0), None, (192, 1.0), None)


def test_program_that_tells_no_samples_is_plotted_over_its_steps() -> None:
    lines = [{"event": "step", "step": number, "loss": 1.0} for number in (1, 2)]

    [line] = _panel("loss-steps", records.run(lines)).series

    assert line.places[:2] == ((1, 1.0), (2, 1.0))


def test_single_line_without_samples_is_left_out_over_samples() -> None:
    told = [{"event": "step", "samples": 64 * n, "loss": 1.0} for n in range(1, 51)]

    panel = _panel("loss-samples", records.run([*told, {"event": "step", "step": 51, "loss": 1.0}]))

    assert panel.series[0].places[:50] == tuple((64 * n, 1.0) for n in range(1, 51))


def test_runs_are_plotted_over_steps_if_one_tells_no_samples() -> None:
    both = records.run([step(n, n, 64 * n, loss=1.0) for n in (1, 2)], "both")
    steps_alone = records.run([{"event": "step", "step": n, "loss": 1.0} for n in (1, 2)], "steps")

    assert [series.label for series in _panel("loss-steps", both, steps_alone).series] == ["both", "steps"]


@pytest.mark.parametrize("count", [10, 1800, 20_000])
def test_loss_begins_and_ends_as_the_record_does(count: int) -> None:
    losses = [2.3, 2.5, 2.1, *(1 + 0.5 * math.sin(n) for n in range(count - 6)), 0.1, 0.45, 0.3]
    run = records.run([start(0, 1), *(step(n, n, 64 * n, loss=loss) for n, loss in enumerate(losses, 1))])

    for name in ("loss-time", "loss-samples"):
        panel = _panel(name, run)
        assert panel.words == "Loss begins at 2.3, ends at 0.3, and is between 0.1 and 2.5."
        known = [place[1] for place in panel.series[0].places if place]
        assert (known[0], known[-1], min(known), max(known)) == (2.3, 0.3, 0.1, 2.5)
        assert (panel.table.rows[0][2], panel.table.rows[-1][2]) == ("2.3", "0.3")


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([{"loss": 1.0}], "1"),
        ([{"loss": 1.0}, {}], "1, and 1 line with none or NaN"),
        ([{}, {"loss": "nan"}, {"loss": None}, {"loss": math.nan}, {"loss": 1.0}], "1, and 4 lines with none or NaN"),
        (
            [{"loss": 1.0}, {}, {"loss": "nan"}, {"loss": None}],
            "NaN or infinite (last number: 1 at step 0), and 3 lines with none or NaN",
        ),
        (
            [{"loss": 1.0}, {"loss": math.inf}, {}],
            "NaN or infinite (last number: 1 at step 0), and 2 lines with none or NaN",
        ),
        ([{"loss": None}, {"loss": -math.inf}], "NaN or infinite, and 2 lines with none or NaN"),
        ([{}, {}], "none, and 2 lines with none or NaN"),
        ([{"loss": 1.0}, {"loss": 1e300}], "1, and 1 line with none or NaN"),
    ],
)
def test_lines_without_a_loss_are_counted(losses: list[dict[str, object]], words: str) -> None:
    run = records.run([start(0, 1), *(event("step", n, step=n, **loss) for n, loss in enumerate(losses))])

    assert _fact(run, "last loss") == words


def test_plot_does_not_end_at_the_number_before_nan() -> None:
    lost = records.run([start(0, 1), *(step(n, n, 64 * n, loss=1.0 if n < 3 else None) for n in (1, 2, 3))])
    never = records.run([start(0, 1), *(step(n, n, 64 * n, loss=math.nan) for n in (1, 2))])

    assert "is 1 before it becomes NaN or infinite" in _panel("loss-time", lost).words
    assert _panel("loss-time", never).words.startswith("The record has no loss that is a number")


def test_mean_throughput_is_told_of_each_size() -> None:
    one = [start(0, 4), step(10, 10, 640, images_per_second_mean=100.0)]
    other = [start(20, 2), step(30, 20, 1280, images_per_second_mean=10.0)]

    assert _fact(records.run(one), "mean throughput") == "100 samples/s"
    assert _fact(records.run([*one, *other]), "mean throughput") == "samples/s: 10 with 2 ranks, 100 with 4 ranks"


def _fact(run: records.Run, name: str) -> str:
    return next(row.cells[0] for row in summary.facts([run]) if row.name == name)


def test_scaling_of_one_run_is_held_to_its_smallest_size() -> None:
    panel = _panel("scaling", records.run(records.rescaled()))

    assert [(series.label, series.places) for series in panel.series] == [
        ("run1", ((2, 640), (3, 960))),
        ("ideal", ((2, 640), (3, 960))),
        ("predicted", ((2, pytest.approx(640)), (3, pytest.approx(951.5, abs=0.1)))),
    ]
    assert panel.table.rows[-1] == ("run1", "3", "960", "960", "100 %", "951.5")


def test_other_sizes_are_predicted_from_the_smallest_one() -> None:
    two = records.run([start(0, 2), step(10, 10, 640, images_per_second_mean=1000.0)], "two")
    eight = records.run([start(0, 8), step(10, 10, 640, images_per_second_mean=3000.0)], "eight")

    panel = _panel("scaling", two, eight)

    line = next(series for series in panel.series if series.label == "predicted")
    first, last = (place[1] for place in line.places if place)
    assert first == pytest.approx(1000)
    # The prediction includes the exchange of 4 MB over 9 Gbit/s, and the wait for the slowest of eight ranks.
    assert 3000 < last < 4000
    assert "over 9 Gbit/s between the ranks, which is assumed" in panel.words


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({"parameter_bytes": None}, id="no-bytes"),
        pytest.param({"values": {"batch_size": "x"}}, id="no-batch"),
        pytest.param({"values": {"batch_size": -64}}, id="negative-batch"),
        pytest.param({"parameter_bytes": 10**15}, id="too-long-an-exchange"),
        pytest.param({"values": {**records.VALUES, "strategy": "parameter-server"}}, id="parameter-servers"),
    ],
)
def test_record_that_tells_too_little_has_no_prediction(figures: dict[str, Any]) -> None:
    lines = [start(0, 2, **figures), step(10, 10, 640, images_per_second_mean=1000.0)]
    lines += [start(20, 8, **figures), step(30, 20, 1280, images_per_second_mean=3000.0)]

    panel = _panel("scaling", records.run(lines))

    assert [series.label for series in panel.series] == ["run1", "ideal"]
    assert {row[-1] for row in panel.table.rows} == {""}


def test_scaling_of_several_runs_is_held_to_the_smallest_of_them() -> None:
    one = records.run([start(0, 1), step(10, 10, 640, images_per_second_mean=100)], "one")
    four = records.run([start(0, 4), step(10, 10, 640, images_per_second_mean=300)], "four")

    panel = _panel("scaling", one, four)

    assert panel.words.endswith("four: with 4 ranks it is 75 % of the ideal.")


def test_runs_of_other_models_are_not_compared() -> None:
    one = records.run([start(0, 1), step(10, 10, 640, images_per_second_mean=100)], "one")
    other = records.run([start(0, 4, model="vgg16"), step(10, 10, 640, images_per_second_mean=3)], "other")

    panel = _panel("scaling", one, other)

    assert not panel.is_drawn
    assert "A rescale, or a second run of another size" in panel.words


def test_step_is_split_where_the_wait_for_the_all_reduce_was_measured() -> None:
    run = records.run([start(0, 2), *records.steps(0, 2, 0, 0, wait=0.1), event("end", 30, cause="finished")])

    panel = _panel("step", run)

    assert panel.parts == ("input", "communication", "computation", "checkpoints")
    # In milliseconds.
    assert panel.bars[0].parts == pytest.approx((50, 100, 50, 10))
    assert panel.table.header[2:6] == panel.parts
    assert panel.table.rows[0][6:] == ("23.8 %", "47.6 %", "23.8 %", "4.8 %")
    assert panel.words == (
        "2 ranks: a step takes 210 ms, 48 % of it communication. Communication is the wait of rank 0 for the averages "
        "of the gradients after its own were computed."
    )


def test_step_whose_wait_was_not_measured_is_not_split() -> None:
    panel = _panel("step", records.run(records.rescaled()))

    assert panel.parts == ("input", "computation and communication", "checkpoints")
    assert panel.bars[0].parts == pytest.approx((50, 150, 10))
    assert panel.words.endswith(
        "The record does not tell communication from computation, as that wait was not measured."
    )


def test_bars_with_and_without_a_measured_wait_are_side_by_side() -> None:
    measured = records.run([start(0, 2), *records.steps(0, 2, 0, 0, wait=0.1)], "one")
    other = records.run([start(0, 2), *records.steps(0, 2, 0, 0)], "two")

    panel = _panel("step", measured, other)

    assert [bar.parts for bar in panel.bars] == [
        pytest.approx((50, 100, 50, None, 10)),
        pytest.approx((50, None, None, 150, 10)),
    ]
    assert panel.table.rows[1][2:7] == ("50 ms", "", "", "150 ms", "10 ms")
    assert "Some bars do not tell communication from computation" in panel.words
    assert "computation and communication" in plot.svg(panel)


def test_every_event_of_several_runs_has_a_place() -> None:
    runs = [records.run(records.rescaled(), name) for name in ("one", "two")]

    panel = _panel("events", *runs)

    assert [len(series.places) for series in panel.series] == [6, 6]
    assert {round(y) for series in panel.series for _, y in filter(None, series.places)} == {0, 1, 2, 3, 4}


def test_plots_without_figures_say_why() -> None:
    drawn = panels([records.run([{"event": "start"}])])

    assert [panel.name for panel in drawn if panel.is_drawn] == []
    assert all(panel.words.endswith(".") for panel in drawn)


@pytest.mark.parametrize("restarts", one_of([2_000, 10_000]))
def test_page_of_many_restarts_and_steps_is_small(restarts: int) -> None:
    lines = []
    for number in range(restarts):
        lines += [event("kill", 10 * number), start(10 * number, 1 + number % 2)]
        lines += [step(10 * number + n, n, 64 * n, loss=1.0 + n, images_per_second=5.0) for n in range(10)]
    run = records.run(lines)

    drawn = panels([run])
    text = page.html([run], drawn)

    assert len(text.encode()) < MOST_BYTES
    assert all(len(panel.table.rows) <= MOST_ROWS for panel in drawn)
    assert f"{restarts:,} starts, 0 checkpoints, 0 rescales, {restarts:,} kills." in text


def test_page_of_eight_long_runs_is_small() -> None:
    lines = [start(0, 2), *(step(n, n, 64 * n, loss=1 + math.sin(n), images_per_second=n % 7) for n in range(2000))]
    runs = [records.run(lines, f"run{number}") for number in range(8)]

    text = page.html(runs, panels(runs))

    assert len(text.encode()) < MOST_BYTES


def test_thinned_line_keeps_its_ends_and_the_gap_before_the_last_place() -> None:
    places: list[numbers.Place | None] = [(float(n), math.sin(n)) for n in range(1000)]
    last = (2000.0, 0.0)

    kept = numbers.thinned([*places, None, last, None], 100)

    assert kept[0] == places[0]
    assert kept[-3:] == [None, last, None]
    assert sum(place is not None for place in kept) <= 100


def test_thinned_line_keeps_its_peaks() -> None:
    places: list[numbers.Place | None] = [(float(n), 0.0) for n in range(10_000)]
    places[5000] = (5000.0, 99.0)

    kept = numbers.thinned(places, 100)

    assert len(kept) <= 110
    assert (5000.0, 99.0) in kept


def test_texts_of_a_record_are_escaped_and_secrets_are_hidden() -> None:
    evil = "<script>alert(1)</script>"
    values = {"model": evil, "password": "hunter22", "data": "https://me:pass@host/x"}
    lines = [start(0, 2, model=evil, values=values), *records.steps(0, 2, 0, 0), event("end", 9, reason=evil)]
    run = records.run(lines, f"$x^{evil}$")

    # If a report has two runs, the plots contain the runs' labels, too.
    text = page.html([run, run], panels([run, run]))

    assert "<script" not in text
    assert "hunter22" not in text
    assert "me:pass" not in text


def test_page_loads_nothing_and_runs_no_script() -> None:
    runs = [records.run(records.rescaled())]

    text = page.html(runs, panels(runs))

    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[^\"' <]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_each_plot_has_a_name_a_description_and_colours_of_the_page() -> None:
    panel = _panel("loss-time", records.run(records.rescaled()))

    text = plot.svg(panel)

    assert '<title id="loss-time-title">Loss over time</title>' in text
    assert '<desc id="loss-time-words">Loss begins at' in text
    assert "var(--run-0)" in text
    assert "currentColor" in text
    assert "#0101" not in text
    assert "#0102" not in text


def test_same_record_gives_the_same_page_and_picture() -> None:
    runs = [records.run(records.rescaled())]

    first, second = [(page.html(runs, panels(runs)), page.png(runs, panels(runs))) for _ in range(2)]

    assert first == second
    assert first[1].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        pytest.param({"cause": "finished", "accuracy": 0.97}, "finished: accuracy 0.9700", id="finished"),
        pytest.param(
            {"cause": "failed", "reason": "no space", "exit_code": 1}, "failed: no space, exit code 1", id="failed"
        ),
        pytest.param({"cause": "stopped", "exit_code": 143}, "stopped: exit code 143", id="stopped"),
        pytest.param(None, "no end since the last start: the run still trains, or was killed", id="none"),
    ],
)
def test_page_says_how_the_run_ended(end: dict[str, object] | None, words: str) -> None:
    runs = [records.run([start(0, 2), *([event("end", 5, **end)] if end else [])])]

    assert words in page.html(runs, panels(runs))


@pytest.mark.parametrize(("number", "words"), [(1e9, "1 GB"), (1_686_568, "1.687 MB"), (12.0, "12 B")])
def test_bytes_have_a_unit(number: float, words: str) -> None:
    assert numbers.amount(number) == words


@pytest.mark.parametrize("size", [1_686_568, 999_900_000])
def test_legend_has_the_unit_of_the_parameters(size: int) -> None:
    panel = _panel("all-reduce", records.run([start(0, 2, parameter_bytes=size), step(10, 10, 640)]))

    assert f"2(N-1)K/N, K = {numbers.amount(size)}<" in plot.svg(panel)


def test_starts_of_another_batch_are_not_compared() -> None:
    other = {**records.VALUES, "batch_size": 32}
    lines = [start(0, 2, values=other), step(10, 10, 640, images_per_second_mean=1000.0)]
    lines += [start(20, 4), step(30, 20, 1280, images_per_second_mean=1500.0)]

    alone = _panel("scaling", records.run(lines))
    beside = _panel("scaling", records.run([*lines, start(40, 8), step(50, 30, 1920, images_per_second_mean=2900.0)]))

    assert alone.words == (
        "All rates that can be compared are of one number of ranks. A rescale, or a second run of another size, "
        "shows how it scales."
    )
    assert [row[1] for row in beside.table.rows] == ["4", "8"]


def test_accuracies_of_tests_between_epochs_are_a_plot_of_their_own() -> None:
    tests = [
        records.event("evaluation", 10, epoch=1, step=10, samples=640, accuracy=0.5, top5_accuracy=0.75),
        records.event("evaluation", 20, epoch=2, step=20, samples=1280, accuracy=0.625, top5_accuracy=0.875),
        # The run has resumed from an older checkpoint, so this evaluation is repeated.
        records.event("evaluation", 30, epoch=2, step=20, samples=1280, accuracy=0.75, top5_accuracy=1.0),
    ]

    panel = _panel("accuracy", records.run([*records.rescaled(), *tests]))

    assert [(series.label, series.places) for series in panel.series] == [
        ("top-1", ((640.0, 0.5), (1280.0, 0.75))),
        ("top-5", ((640.0, 0.75), (1280.0, 1.0))),
    ]
    assert panel.words.startswith("The top-1 accuracy begins at 0.5, ends at 0.75, and is between")


def test_run_without_tests_between_epochs_has_no_such_plot() -> None:
    assert "accuracy" not in {panel.name for panel in panels([records.run(records.rescaled())])}
