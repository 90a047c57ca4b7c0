"""Define the arguments of `predict`, except the flags for values."""

from __future__ import annotations

import argparse
import math

from distrain.command_line.arguments import Parser, endpoint, named
from distrain.command_line.numbers import count, seconds, workers

# A run has at most MOST_WORKERS workers. distrain.derive.split has the same constant, but importing that module here
# would take too long.
MOST_WORKERS = 1000


def add(parser: Parser) -> None:
    words = "the record of a run of this model, for measured rates: a folder, or s3://bucket/team/run1"
    parser.add_argument("--record", type=named, metavar="PLACE", help=words)
    words = "the S3 server's URL, if not that of AWS_ENDPOINT_URL"
    parser.add_argument("--endpoint", type=endpoint, metavar="URL", help=words)
    parser.add_argument("--rate", type=_positive, metavar="N", help="measured samples/sec of one GPU")
    words = "log of the pod of `helm test`: its all-reduce gives bandwidth and latency; - reads stdin"
    parser.add_argument("--test", type=named, metavar="FILE", help=words)
    words = "bandwidth that a run reaches between nodes, in Gbit/s"
    parser.add_argument("--between", type=_positive, metavar="GBIT", help=words)
    words = "the same between the GPUs of a node; if unset 80, or the bandwidth between nodes if that is higher"
    parser.add_argument("--within", type=_positive, metavar="GBIT", help=words)
    parser.add_argument("--latency", type=_latency, metavar="TIME", help="of a hop between nodes, 14us if unset")
    words = "how the ranks exchange gradients; a tree if unset and no record tells"
    parser.add_argument("--algorithm", choices=["tree", "ring", "hierarchical"], help=words)
    words = "gradients that are exchanged together, 25 for DDP and 128 for Horovod if unset"
    parser.add_argument("--bucket", type=_mebibytes, metavar="MIB", help=words)
    words = "type of the nodes, as in p3.16xlarge: its network if nothing measured is given, and its price"
    parser.add_argument("--instance", type=named, metavar="TYPE", help=words)
    words = "your table of prices, as for `cluster`: a line `TYPE: PRICE` for an hour of each type"
    parser.add_argument("--prices", type=named, metavar="FILE", help=words)
    parser.add_argument(
        "--max-workers", type=_workers, metavar="N", help="largest size, four times the values' if unset"
    )
    parser.add_argument("--max-hours", type=_positive, metavar="H", help="choose among sizes that take no longer")
    parser.add_argument("--max-cost", type=_positive, metavar="COST", help="choose among sizes that cost no more")
    words = "samples of the whole run, if trainer.epochs or trainer.steps do not tell"
    parser.add_argument("--samples", type=_samples, metavar="N", help=words)
    words = "trainable parameters, for a model or a program of your own"
    parser.add_argument("--parameters", type=_parameters, metavar="N", help=words)
    parser.add_argument("--batch", type=_batch, metavar="N", help="samples of a rank's step, for a program of your own")
    parser.add_argument("-o", "--output", choices=["text", "json", "yaml"], default="text", help="form of the answer")


# A number outside this range is refused, because it must be a mistake, for example in its unit.
SMALLEST, LARGEST = 1e-6, 1e9
LARGEST_COUNT = 10**15
# In seconds. A duration without a unit is in seconds, too.
LONGEST_HOP = 1.0


def _positive(text: str) -> float:
    """Parse a number above 0, from SMALLEST to LARGEST."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f'"{text}" is no number above 0; give one such as 25 or 0.5')
    if not SMALLEST <= number <= LARGEST:
        words = f"is not from {SMALLEST:g} to {LARGEST:g}"
        raise argparse.ArgumentTypeError(f'"{text}" {words}; give one such as 25 or 0.5')
    return number


def _latency(text: str) -> float:
    found = seconds(text)
    if found > LONGEST_HOP:
        words = f"is longer than a hop of any network, {LONGEST_HOP:g} s"
        raise argparse.ArgumentTypeError(f'"{text}" {words}; give one such as 14us')
    return found


def _workers(text: str) -> int:
    number = workers(text)
    if number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{number} workers are more than a run may have; give {MOST_WORKERS} or fewer")
    return number


def _mebibytes(text: str) -> int:
    return round(_positive(text) * 2**20)


def _samples(text: str) -> int:
    return _count(text, "samples", 1281167)


def _parameters(text: str) -> int:
    return _count(text, "parameters", 110000000)


def _batch(text: str) -> int:
    return _count(text, "samples", 64)


def _count(text: str, of: str, example: int) -> int:
    number = count(text, of, example)
    if number > LARGEST_COUNT:
        raise argparse.ArgumentTypeError(f'"{text}" is above {LARGEST_COUNT}; give a number of {of} such as {example}')
    return number
