"""Test the constants that `predict` computes from a record and from the log of `helm test`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugin.predict.asking import TEST, Predict, answer_of, by_workers, changed, record


def test_record_of_one_node_is_predicted_without_its_links(predict: Predict) -> None:
    """If the link within the node had only 80 Gbit/s, the exchange would take longer than the whole step."""
    folder = record((4, 8000.0))

    outcome = predict("--record", f"./{folder.name}", "--between", "100")
    stated = predict("--record", f"./{folder.name}", "--between", "100", "--within", "80")

    assert outcome.code == 0, outcome.err
    assert "that within one in the compute time" in outcome.out
    assert stated.code == 2
    assert stated.err.startswith("distrain: --within: over the link within a worker the exchange")


def test_stated_link_within_a_worker_counts_beside_a_record(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 700.0), (16, 1350.0))

    answer = answer_of(predict("--record", f"./{folder.name}", "--within", "300", "-o", "json"))

    assert answer["network"]["withinBitsPerSecond"] == pytest.approx(300e9)
    assert by_workers(answer)[1]["samplesPerSecond"] == pytest.approx(500, rel=0.01)


def test_test_within_a_worker_tells_nothing_of_the_network_between_workers(predict: Predict) -> None:
    Path("within.log").write_text(TEST.replace("8 ranks", "4 ranks").replace("100000.0", " 20000.0"))
    folder = record((4, 500.0), (8, 700.0), (16, 1350.0))

    alone = answer_of(predict("--rate", "128", "--test", "within.log", "-o", "json"))
    beside = answer_of(predict("--record", f"./{folder.name}", "--test", "within.log", "-o", "json"))

    assert alone["network"]["latencySeconds"] == pytest.approx(14e-6)
    assert alone["assumed"][0].startswith(
        "--test: its 4 ranks are assumed to be in one worker, so it does not measure the"
    )
    assert beside["network"]["from"] == "the record, of 4, 8, 16 ranks"


def test_last_of_several_tests_counts(predict: Predict) -> None:
    Path("both.log").write_text(TEST + TEST.replace("8 ranks", "16 ranks").replace("100000.0", " 50000.0"))

    network = answer_of(predict("--rate", "128", "--test", "both.log", "-o", "json"))["network"]

    assert network["from"] == "the test over 16 ranks"
    assert network["betweenBitsPerSecond"] == pytest.approx(8 * 1.875 * 64 * 2**20 / 0.04988, rel=1e-3)


def test_log_with_the_line_ends_of_windows_is_read(predict: Predict) -> None:
    Path("windows.log").write_text("\ufeff" + TEST.replace("\n", "\r\n"))

    network = answer_of(predict("--rate", "128", "--test", "windows.log", "-o", "json"))["network"]

    assert network["from"] == "the test over 8 ranks"


def test_test_whose_times_do_not_grow_is_refused(predict: Predict) -> None:
    Path("flat.log").write_text(TEST.replace("100000.0", "   100.0"))

    outcome = predict("--rate", "128", "--test", "flat.log")

    assert outcome.code == 2
    assert "its largest tensor took no longer than its smallest, so no bandwidth can be computed" in outcome.err


def test_size_of_the_model_in_the_record_counts_before_that_of_its_usual_images(predict: Predict) -> None:
    folder = changed((4, 500.0, {}), (8, 900.0, {}), parameters=53_000)

    assert answer_of(predict("--record", f"./{folder.name}", "-o", "json"))["gradientBytes"] == 212_000


@pytest.mark.parametrize("change", [{"batch_size": 32}, {"precision": "bf16"}, {"strategy": "parameter-server"}])
def test_starts_unlike_the_last_one_do_not_count(predict: Predict, change: dict[str, Any]) -> None:
    folder = changed((4, 100.0, change), (8, 700.0, {}))

    outcome = predict("--record", f"./{folder.name}", "--between", "20", "-o", "json")

    answer = answer_of(outcome)
    assert answer["computeFrom"] == "the record, of 8 ranks"
    assert by_workers(answer)[2]["samplesPerSecond"] == pytest.approx(700, rel=1e-3)


def test_what_a_record_has_otherwise_than_the_values_is_told(predict: Predict) -> None:
    folder = changed((8, 700.0, {"batch_size": 32, "precision": "bf16"}))

    outcome = predict("--record", f"./{folder.name}", "--between", "100", "--within", "80")

    assert outcome.err.splitlines() == [
        "distrain: record: its batch size is 32, and that of the values is 64; the compute time is scaled in "
        "proportion",
        "distrain: record: its precision is bf16, and that of the values is fp32; its rates are used unchanged",
    ]


def test_measured_size_that_the_model_misses_is_told(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 1300.0))

    outcome = predict("--record", f"./{folder.name}")

    assert "record: 8 ranks reached 1,300 samples/s, but the model predicts 98" in outcome.err
    assert "network: the record's larger sizes are as efficient as its smallest" in outcome.err


SERVED = """
framework: mxnet
strategy: parameter-server
image: {repository: example.com/distrain/mxnet, tag: "1"}
workers: {replicas: 4, gpus: 1}
servers: {replicas: 2}
trainer: {model: vgg16, batchSize: 64, steps: 3600}
"""


def test_record_with_parameter_servers_is_predicted_with_them(predict: Predict) -> None:
    Path("served.yaml").write_text(SERVED)
    served = {"strategy": "parameter-server"}
    folder = changed((1, 100.0, served), (4, 250.0, served))

    of_two = answer_of(predict("--record", f"./{folder.name}", "-o", "json", values="served.yaml"))
    of_one = answer_of(predict("--record", f"./{folder.name}", "--between", "20", "-o", "json", values="served.yaml"))

    assert by_workers(of_two, "parameter-server")[4]["samplesPerSecond"] == pytest.approx(250, rel=0.01)
    assert of_one["computeSeconds"] == pytest.approx(0.64)


def test_batch_of_a_damaged_record_is_unknown(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 900.0), batch=10**400)

    answer = answer_of(predict("--record", f"./{folder.name}", "-o", "json"))

    assert answer["computeSeconds"] == pytest.approx(4 * 64 / 500, rel=0.1)
    assert answer["assumed"][0] == "record: it does not have the batch size; the batch size of the values is used, 64"


def test_servers_of_one_worker_are_reached_between_workers(predict: Predict) -> None:
    folder = changed((4, 300.0, {"strategy": "parameter-server"}))

    outcome = predict("--record", f"./{folder.name}")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: --between: over 36% of 25 Gbit/s, which is assumed, the exchange")


def test_rate_beside_a_record_is_told_not_to_count(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 700.0))

    answer = answer_of(predict("--record", f"./{folder.name}", "--rate", "1", "-o", "json"))

    assert answer["assumed"] == ["compute: the rates of the record are taken, and not --rate; leave one of them out"]
    assert answer["computeSeconds"] == pytest.approx(4 * 64 / 500)
