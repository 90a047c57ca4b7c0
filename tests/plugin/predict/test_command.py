"""Test the command `predict`: its table, the size that it chooses, and its message for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain.workload.kinds import FACTS
from tests.plugin.predict.asking import FIXED, TEST, VALUES, Predict, answer_of, by_workers, record
from tests.plugin.report import records


def test_table_has_each_size_by_both_exchanges(predict: Predict) -> None:
    size = ("--instance", "p3.8xlarge", "--prices", "prices", "--max-workers", "4")
    outcome = predict(*FIXED, *size, "--set", "framework=mxnet")

    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[2] == "compute   500 ms a step, from --rate 128"
    assert lines[4] == "length    1,843,200 samples, those of 3,600 steps of 8 ranks"
    rows = [line.split() for line in lines if "all-reduce" in line or "parameter-server" in line][:6]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        *(("1", "4", "all-reduce"), ("1", "4", "parameter-server")),
        *(("2", "8", "all-reduce"), ("2", "8", "parameter-server")),
        *(("4", "16", "all-reduce"), ("4", "16", "parameter-server")),
    ]
    assert lines[-2].startswith("cheapest: 1 worker by all-reduce: 1 hour, a cost of 12.24,")


@pytest.mark.parametrize("framework", FACTS.choices["allreduce"])
@pytest.mark.parametrize("gpus", [1, 4])
def test_only_what_the_chart_runs_is_recommended(predict: Predict, framework: str, gpus: int) -> None:
    flags = (*FIXED, "--set", f"framework={framework},workers.gpus={gpus}")
    is_run = predict(*flags, "--set", "strategy=parameter-server").code == 0

    answer = answer_of(predict(*flags, "-o", "json"))

    assert bool(by_workers(answer, "parameter-server")) == is_run


def test_seconds_are_those_of_the_model(predict: Predict) -> None:
    answer = answer_of(predict(*FIXED, "--algorithm", "ring", "-o", "json"))

    sizes = by_workers(answer)
    assert sizes[1]["stepSeconds"] == pytest.approx(0.5, abs=1e-4)
    # VGG16's dense layers have 89 % of the gradients, and their gradients are exchanged first. So all buckets except
    # the last one are exchanged while the ranks still compute. In addition, the step waits for the slower of the two
    # workers.
    last = 1.75 * 25e6 * 8 / 44.27e9
    assert sizes[2]["stepSeconds"] == pytest.approx(0.5 * 1.0118 + last, abs=0.003)
    # The exchange with parameter servers does not overlap with computation: K bytes go to the servers, and K bytes come
    # back.
    served = answer_of(predict(*FIXED, "--set", "framework=mxnet", "-o", "json"))
    assert by_workers(served, "parameter-server")[2]["stepSeconds"] == pytest.approx(0.5 * 1.012 + 0.2, abs=0.01)


def test_run_of_so_many_steps_has_the_samples_of_its_own_size_at_each(predict: Predict) -> None:
    answer = answer_of(predict(*FIXED, "-o", "json"))

    # If a step takes 1 s, 3,600 steps of 8 ranks take an hour. With half as many ranks, the same number of samples
    # takes two hours.
    assert answer["samples"] == 3600 * 8 * 64
    for workers, size in by_workers(answer).items():
        assert size["hours"] == pytest.approx(size["stepSeconds"] * 2 / workers)


def test_run_of_so_many_samples_is_shorter_at_a_larger_size(predict: Predict) -> None:
    sizes = by_workers(answer_of(predict(*FIXED, "--samples", "1000000", "-o", "json")))

    hours = [size["hours"] for size in sizes.values()]
    assert hours == sorted(hours, reverse=True)
    assert sizes[1]["hours"] == pytest.approx(1_000_000 / sizes[1]["samplesPerSecond"] / 3600)


def test_limits_decide_what_is_chosen(predict: Predict) -> None:
    given = (*FIXED, "--samples", "100000000", "--instance", "p3.8xlarge", "--prices", "prices", "-o", "json")
    whole = answer_of(predict(*given))
    limited = answer_of(predict(*given, "--max-cost", "700"))
    hasty = answer_of(predict(*given, "--max-hours", "20"))
    never = answer_of(predict(*given, "--max-hours", "0.1"))

    assert whole["cheapest"]["workers"] == 1
    assert whole["fastest"]["workers"] == 8
    assert limited["fastest"]["cost"] <= 700
    assert hasty["cheapest"]["hours"] <= 20
    assert hasty["cheapest"]["workers"] > 1
    assert (never["cheapest"], never["fastest"]) == (None, None)


def test_no_size_within_a_limit_is_told(predict: Predict) -> None:
    outcome = predict(*FIXED, "--max-hours", "0.1")

    assert outcome.code == 0
    assert outcome.out.endswith("No size ends within 0.1 hours; raise the limit, or --max-workers.\n")


def test_workers_share_a_node(predict: Predict) -> None:
    (Path("prices")).write_text("p3.16xlarge: 24.48\n")

    sizes = by_workers(answer_of(predict(*FIXED, "--instance", "p3.16xlarge", "--prices", "prices", "-o", "json")))

    assert sizes[1]["cost"] == pytest.approx(24.48 * sizes[1]["hours"])
    assert sizes[2]["cost"] == pytest.approx(24.48 * sizes[2]["hours"])
    assert sizes[4]["cost"] == pytest.approx(2 * 24.48 * sizes[4]["hours"])


def test_test_of_the_network_gives_bandwidth_and_latency(predict: Predict) -> None:
    network = answer_of(predict("--rate", "128", "--test", "test.log", "-o", "json"))["network"]

    assert network["betweenBitsPerSecond"] == pytest.approx(8 * 1.75 * 64 * 2**20 / 0.09988, rel=1e-3)
    assert network["latencySeconds"] == pytest.approx(20e-6)
    assert network["from"] == "the test over 8 ranks"


def test_record_of_three_sizes_gives_all_constants(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 700.0), (16, 1350.0))

    answer = answer_of(predict("--record", f"./{folder.name}", "-o", "json", "--max-workers", "8"))

    sizes = by_workers(answer)
    rates = [sizes[workers]["samplesPerSecond"] for workers in (1, 2, 4)]
    assert rates == pytest.approx([500, 700, 1350], rel=0.03)
    assert answer["network"]["from"] == "the record, of 4, 8, 16 ranks"
    assert answer["assumed"] == []


def test_record_of_one_size_gives_the_compute_time_behind_its_exchange(predict: Predict) -> None:
    folder = record((8, 700.0))

    answer = answer_of(predict("--record", f"./{folder.name}", "--between", "20", "-o", "json"))

    assert by_workers(answer)[2]["samplesPerSecond"] == pytest.approx(700, rel=1e-3)
    assert answer["computeSeconds"] < 8 * 64 / 700


def test_what_is_assumed_is_told(predict: Predict) -> None:
    outcome = predict()

    assert outcome.code == 0
    told = outcome.err.splitlines()
    assert told[0].startswith(
        "distrain: compute: no measured rate is given, so the speed of a P100 in fp32 is assumed; add --rate N"
    )
    assert told[1].startswith("distrain: network: 36% of 25 Gbit/s is assumed: published runs reach this share; give")


def test_program_of_ones_own_is_predicted_from_stated_numbers(predict: Predict) -> None:
    given = ("--rate", "50", "--parameters", "340000000", "--batch", "32", "--samples", "1000000", "--between", "80")

    answer = answer_of(predict(*given, "-o", "json", values="own.yaml"))

    assert (answer["model"], answer["gradientBytes"], answer["batch"]) == (None, 1_360_000_000, 32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--between", "0"], '--between: "0" is no number above 0; give one such as 25 or 0.5', id="zero"),
        pytest.param(["--between", "-25"], '--between: "-25" is no number above 0', id="negative"),
        pytest.param(["--rate", "nan"], '--rate: "nan" is no number above 0', id="nan"),
        pytest.param(["--max-hours", "inf"], '--max-hours: "inf" is no number above 0', id="infinite"),
        pytest.param(["--max-workers", "1001"], "--max-workers: 1001 workers are more than a run may have", id="many"),
        pytest.param(["--max-workers", "0"], '--max-workers: "0" is no number of workers; give 1 or more, such as 4',
                     id="none"),
        pytest.param(["--instance", "p9.huge"], "--instance: distrain knows no instance type p9.huge", id="no-type"),
        pytest.param(["--instance", "p3.2xlarge", "--prices", "one"],
                     "--prices: one has no price for p3.2xlarge; add a line `p3.2xlarge: PRICE`", id="no-price"),
        pytest.param(["--prices", "prices"], "--prices: the nodes' instance type is not known; add --instance",
                     id="no-instance"),
        pytest.param(["--prices", "one", "--instance", "g4dn.xlarge"],
                     "--instance: g4dn.xlarge has 1 GPU, but a worker needs 4; name a larger type", id="small-type"),
        pytest.param(["--max-cost", "5"], "--max-cost: needs prices; add --prices FILE and --instance TYPE", id="cost"),
        pytest.param(["--test", "prices"], "--test: prices contains no all-reduce table; give the", id="no-table"),
        pytest.param(["--test", "none.log"], "--test: none.log cannot be read: No such file", id="no-file"),
        pytest.param(["--test", "single.log"], "--test: single.log contains only 1 rank, so no bandwidth can",
                     id="test-of-one-rank"),
        *(pytest.param(["--record", "s3://bucket/run", "--endpoint", url],
                       "--endpoint: it is no URL of a server; write https://s3.example.com, without a login", id=name)
          for name, url in (("no-scheme", "s3.example.com:9000"), ("another-scheme", "s3://bucket"),
                            ("no-host", "http://"), ("no-port", "http://a:b"), ("space", "http://a b"),
                            ("login", "http://a:b@c"), ("open-bracket", "http://[::1"))),
        pytest.param(["--record", "./none"], "--record: none cannot be read: No such file", id="no-record"),
    ],
)  # fmt: skip
def test_mistake_is_one_line(predict: Predict, arguments: list[str], words: str) -> None:
    Path("one").write_text("g4dn.xlarge: 0.5\n")
    Path("single.log").write_text(TEST.replace("8 ranks", "1 ranks"))

    outcome = predict("--rate", "128", *arguments)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: {words}")
    assert outcome.err.count("\n") == 1


def test_length_that_is_unknown_has_no_limit(predict: Predict) -> None:
    given = ("--rate", "50", "--parameters", "340000000", "--batch", "32", "--between", "80")

    outcome = predict(*given, "--max-hours", "5", values="own.yaml")

    assert outcome.code == 2
    assert "--max-hours: the length of the run is not known; add --samples N" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            [], "command: your own program does not tell the size of its gradients; add --parameters N", id="parameters"
        ),
        pytest.param(
            ["--parameters", "9"], "command: your own program does not tell its batch size; add --batch", id="batch"
        ),
        pytest.param(["--parameters", "9", "--batch", "8"], "--rate: is missing, so the compute time", id="rate"),
    ],
)
def test_what_a_program_of_ones_own_leaves_open_is_asked_for(
    predict: Predict, arguments: list[str], words: str
) -> None:
    outcome = predict(*arguments, values="own.yaml")

    assert outcome.code == 2
    assert outcome.err.startswith(f"distrain: {words}")


def test_record_of_another_model_is_refused(predict: Predict) -> None:
    record((8, 700.0), model="resnet50")

    outcome = predict("--record", "./run1")

    assert outcome.code == 2
    words = "--record: run1 is a record of resnet50, but trainer.model is vgg16; name a record of vgg16"
    assert outcome.err == f"distrain: {words}, or set trainer.model=resnet50\n"


def test_record_with_one_step_is_refused(predict: Predict) -> None:
    records.folder(Path(), [records.start(0, 8, model="vgg16"), records.step(5, 1, 512, images_per_second=90.0)])

    outcome = predict("--record", "./run1")

    assert outcome.code == 2
    words = "--record: run1 has 1 logged step, too few to compute a rate; let the run train for longer, or add --rate N"
    assert outcome.err == f"distrain: {words}\n"


def test_record_whose_steps_are_shorter_than_the_stated_network_allows_is_refused(predict: Predict) -> None:
    record((8, 7000.0))

    outcome = predict("--record", "./run1", "--between", "1")

    assert outcome.code == 2
    slow = "the exchange of gradients would take longer than a whole step of the recorded run (0.0731 s)"
    words = f"--between: over --between 1 {slow}; give the bandwidth that this run had"
    assert outcome.err == f"distrain: {words}\n"


def test_record_without_rates_is_refused(predict: Predict) -> None:
    records.folder(Path(), [records.start(0, 0, model="vgg16"), records.step(5, 1, 64), records.step(5, 2, 128)])

    outcome = predict("--record", "./run1")

    assert outcome.code == 2
    words = "--record: run1 has no samples/sec for any number of ranks; name another record, or add --rate N"
    assert outcome.err == f"distrain: {words}\n"


def test_total_of_gpus_is_spread_over_nodes_of_the_type(predict: Predict) -> None:
    Path("total.yaml").write_text(VALUES.replace("workers: {replicas: 2, gpus: 4}", "gpus: 16"))

    asked = predict("--rate", "128", values="total.yaml")
    spread = answer_of(predict("--rate", "128", "--instance", "p3.16xlarge", "-o", "json", values="total.yaml"))

    assert asked.code == 2
    assert asked.err.startswith(
        "distrain: gpus: the total is not divided among workers yet; run `helm distrain derive`"
    )
    assert [size["ranks"] for size in spread["sizes"] if size["exchange"] == "all-reduce"] == [8, 16, 32, 64]


def test_record_tells_the_samples_of_an_epoch(predict: Predict) -> None:
    folder = record((4, 500.0), (8, 700.0))

    usual = answer_of(predict("--rate", "128", "-o", "json", values="epochs.yaml"))
    told = answer_of(predict("--record", f"./{folder.name}", "-o", "json", values="epochs.yaml"))

    assert usual["samples"] == 3 * 1_281_167
    assert told["samples"] == 3 * 10_000


def test_record_of_a_program_of_ones_own_tells_its_parameters(predict: Predict) -> None:
    folder = record((8, 700.0), model="own")

    answer = answer_of(predict("--record", f"./{folder.name}", "--batch", "64", "-o", "json", values="own.yaml"))

    assert answer["gradientBytes"] == records.PARAMETER_BYTES


def test_ranks_that_fill_no_workers_are_left_out(predict: Predict) -> None:
    folder = record((4, 500.0), (6, 600.0), (8, 700.0))

    outcome = predict("--record", f"./{folder.name}", "--between", "20")

    assert outcome.code == 0
    assert "record: 6 ranks do not fill whole workers of 4, so this size is left out" in outcome.err


def test_test_within_a_worker_gives_the_link_within_it(predict: Predict) -> None:
    Path("within.log").write_text(TEST.replace("8 ranks", "4 ranks"))

    network = answer_of(predict("--rate", "128", "--test", "within.log", "--between", "20", "-o", "json"))["network"]

    assert network["withinBitsPerSecond"] == pytest.approx(8 * 1.5 * 64 * 2**20 / 0.09988, rel=1e-3)
    assert network["betweenBitsPerSecond"] == pytest.approx(20e9)


def test_type_with_infiniband_has_no_bandwidth_in_the_table(predict: Predict) -> None:
    outcome = predict("--rate", "128", "--instance", "Standard_ND96asr_v4")

    assert outcome.code == 0
    assert "network: Standard_ND96asr_v4 has InfiniBand, whose bandwidth the table of types lacks" in outcome.err


def test_compute_time_of_another_batch_is_in_proportion(predict: Predict) -> None:
    folder = record((8, 700.0), batch=32)

    answer = answer_of(predict("--record", f"./{folder.name}", "--between", "100000", "-o", "json"))

    # A batch of 64 takes twice as long as the record's batch of 32. Waiting for the slower of two workers adds 1.2 %.
    assert answer["computeSeconds"] == pytest.approx(8 * 64 / 700 / 1.012, rel=0.02)
