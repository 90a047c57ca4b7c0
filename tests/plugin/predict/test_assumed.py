"""Test how `predict` treats unusual numbers, and that it prints its assumptions."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import NoReturn

import pytest

from tests.plugin.predict.asking import FIXED, S3, VALUES, Predict, answer_of, by_workers, changed

TYPES = ["p5.48xlarge", "p4d.24xlarge", "p3.16xlarge"]


@pytest.mark.parametrize("name", TYPES)
def test_two_workers_of_a_type_are_not_more_efficient_than_one(predict: Predict, name: str) -> None:
    answer = answer_of(predict("--rate", "2500", "--instance", name, "-o", "json"))

    efficiencies = [size["efficiency"] for size in by_workers(answer).values()]
    assert efficiencies == sorted(efficiencies, reverse=True)


def test_link_within_a_worker_that_nothing_tells_is_told_as_assumed(predict: Predict) -> None:
    note = "network: 80 Gbit/s within a worker are assumed; give --within"

    assumed = answer_of(predict("--rate", "128", "--between", "20", "-o", "json"))["assumed"]
    told = predict("--rate", "128", "--between", "20").err
    stated = answer_of(predict("--rate", "128", "--between", "20", "--within", "100", "-o", "json"))["assumed"]

    assert (assumed, told, stated) == ([note], f"distrain: {note}\n", [])


@pytest.mark.parametrize(
    "flag", ["--rate", "--between", "--within", "--bucket", "--max-hours", "--samples", "--parameters", "--batch"]
)
@pytest.mark.parametrize("number", ["1e-320", "1e-9", "1e300", "1e305", "1" + 400 * "0", 5000 * "9", "1000000"])
def test_number_at_the_ends_is_a_mistake_in_one_line_or_gives_strict_json(
    predict: Predict, flag: str, number: str
) -> None:
    outcome = predict("--rate", "128", flag, number, "-o", "json")

    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    assert outcome.code in (0, 2)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1) or json.loads(outcome.out, parse_constant=refuse)


def test_latency_without_a_unit_is_not_taken_for_seconds(predict: Predict) -> None:
    outcome = predict("--rate", "128", "--latency", "14")

    assert outcome.code == 2
    assert outcome.err.startswith('distrain: --latency: "14" is longer than a hop of any network, 1 s; give one such')


@pytest.mark.parametrize("wrong", ["--batch-size=0", "--batch-size=-64", "--steps=0", f"--batch-size={10**30}"])
def test_trainers_argument_that_is_no_size_is_refused(predict: Predict, wrong: str) -> None:
    Path("extra.yaml").write_text(VALUES.replace("steps: 3600", f'steps: 3600, extraArgs: ["{wrong}"]'))

    outcome = predict("--rate", "128", "--samples", "1000", values="extra.yaml")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: trainer.extraArgs: {wrong[:30]}")


def test_run_without_a_length_has_the_charts_100_steps(predict: Predict) -> None:
    Path("short.yaml").write_text(VALUES.replace(", steps: 3600", ""))

    answer = answer_of(predict("--rate", "128", "-o", "json", "--max-hours", "5", values="short.yaml"))

    assert (answer["steps"], answer["samples"]) == (100, 100 * 8 * 64)


def test_data_of_an_epoch_that_is_assumed_is_told(predict: Predict) -> None:
    outcome = predict("--rate", "128", "--between", "20", "--within", "80", values="epochs.yaml")

    words = "length: the data is assumed to be ImageNet, 1,281,167 samples per epoch; give --samples if this is wrong"
    assert outcome.err.splitlines()[-1] == f"distrain: {words}"


SMALL = f"{VALUES.replace('vgg16', 'mnist')}{S3}"
IMAGES = "the data is assumed to have images of 28x28x1 and 10 classes; give --record or --parameters if this is wrong"


@pytest.mark.parametrize(
    ("values", "arguments", "notes"),
    [
        pytest.param(SMALL, (), [f"gradients: {IMAGES}"], id="assumed"),
        pytest.param(SMALL, ("--parameters", "53000"), [], id="stated"),
        # The trainer makes synthetic data of this size.
        pytest.param(SMALL.removesuffix(S3), (), [], id="synthetic"),
    ],
)
def test_images_that_are_assumed_are_told(
    predict: Predict, values: str, arguments: tuple[str, ...], notes: list[str]
) -> None:
    Path("small.yaml").write_text(values)
    known = ("--rate", "128", "--between", "20", "--within", "80", *arguments)

    answer = answer_of(predict(*known, "-o", "json", values="small.yaml"))

    assert answer["assumed"] == notes
    assert predict(*known, values="small.yaml").err == "".join(f"distrain: {note}\n" for note in notes)


def test_images_of_a_record_are_not_assumed(predict: Predict) -> None:
    Path("small.yaml").write_text(SMALL)
    folder = changed((4, 500.0, {}), (8, 900.0, {}), model="mnist", parameters=53_000)

    answer = answer_of(predict("--record", f"./{folder.name}", "-o", "json", values="small.yaml"))

    assert [note for note in answer["assumed"] if note.startswith("gradients:")] == []


def test_rate_of_a_model_on_small_images_is_not_that_of_large_ones(predict: Predict) -> None:
    Path("small.yaml").write_text(VALUES.replace("steps: 3600", 'steps: 3600, extraArgs: ["--image-size=32"]'))

    outcome = predict("--parameters", "138000000", values="small.yaml")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: --rate: is missing")


def test_plain_pytorch_runs_with_horovods_buckets(predict: Predict) -> None:
    Path("plain.yaml").write_text(f"{VALUES}job: {{kind: Plain}}\n")

    plain = answer_of(predict(*FIXED, "-o", "json", values="plain.yaml"))

    assert plain["bucketBytes"] == 128 * 2**20
    assert answer_of(predict(*FIXED, "-o", "json"))["bucketBytes"] == 25 * 2**20


def test_model_of_billions_of_parameters_is_written_without_exponents(predict: Predict) -> None:
    given = ("--rate", "0.3", "--parameters", "7000000000", "--batch", "1", "--between", "1152", "--samples", "9999999")

    out = predict(*given, values="own.yaml").out

    assert "gradients 28,000 MB" in out
    assert "1,152 Gbit/s between workers" in out
    assert "e+" not in out
    assert " 1.19 " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--instance", "g4dn.xlarge"], "--instance: g4dn.xlarge has 1 GPU, but a worker need", id="flag"),
        pytest.param(
            ["--set-string", r"workers.nodeSelector.node\.kubernetes\.io/instance-type=g4dn.xlarge"],
            "workers.nodeSelector: g4dn.xlarge has 1 GPU, but a worker needs 4",
            id="selector",
        ),
        pytest.param(
            [
                *("--set-string", r"workers.nodeSelector.node\.kubernetes\.io/instance-type=p3.8xlarge"),
                *("--instance", "p3.16xlarge"),
            ],
            "--instance: is p3.16xlarge, but workers.nodeSelector asks for nodes of type p3.8xlarge",
            id="both",
        ),
    ],
)
def test_type_that_cannot_hold_the_run_is_refused(predict: Predict, arguments: list[str], words: str) -> None:
    outcome = predict("--rate", "128", *arguments)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: {words}")


def test_login_in_the_place_of_a_record_is_hidden(predict: Predict) -> None:
    outcome = predict("--record", "s3://AKIAEXAMPLE:verysecret@bucket/team/run1")

    assert outcome.code == 2
    assert "verysecret" not in outcome.err
    assert "contains a login; write s3://bucket/folder" in outcome.err


def test_price_of_nothing_is_an_amount(predict: Predict) -> None:
    Path("free").write_text("p3.8xlarge: 0\n")

    out = predict(*FIXED, "--instance", "p3.8xlarge", "--prices", "free").out

    assert "a cost of 0.00" in out


def test_values_and_test_cannot_both_be_stdin(predict: Predict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(VALUES.encode())))

    outcome = predict("--rate", "128", "--test", "-", values="-")

    assert outcome.code == 2
    assert outcome.err == "distrain: --test: --values already reads stdin; name a file with the log\n"
