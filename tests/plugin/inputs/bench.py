"""Run the program with random broken inputs: `python -m tests.plugin.inputs.bench`, or `make bench-inputs`.

`--from` continues an interrupted run. If an answer has a mistake, the program prints the seed. `--from SEED --count 1`
tries this seed again and prints its input.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.plugin.inputs.random_inputs import kind_of, random_input
from tests.plugin.inputs.trial import bench, mistakes

CHUNK = 100


def failures(seeds: Sequence[int], kind: str | None = None, *, as_process: bool = False) -> Iterator[str]:
    """For each seed whose answer has a mistake, yield a text with the mistake, the input and the answer."""
    with bench() as place:
        for seed in seeds:
            given = random_input(seed, kind)
            answer = place.as_process(given) if as_process else place.in_process(given)
            if found := mistakes(answer):
                said = f"{answer.err[-2500:]}{answer.out[-500:]}"
                yield f"seed {seed}, {kind or kind_of(seed)}: {', '.join(found)}\n{given}\n{said}"


def main() -> int:
    """Run a range of seeds in parallel. Return 1 if at least one answer has a mistake."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=20_000, help="how many seeds")
    parser.add_argument("--kind", help="break only this kind of input")
    parser.add_argument("--as-process", action="store_true", help="run each input as a process of its own")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    last = arguments.first + arguments.count
    chunks = [range(first, min(first + CHUNK, last)) for first in range(arguments.first, last, CHUNK)]
    started, done, failed = time.monotonic(), arguments.first, 0
    given = [(chunk, arguments.kind, arguments.as_process) for chunk in chunks]
    with ProcessPoolExecutor(arguments.processes) as pool:
        answers = zip(chunks, pool.map(_chunk, given), strict=True)
        try:
            for chunk, found in answers:
                done, failed = chunk.stop, failed + len(found)
                for text in found:
                    print(f"{text}\n{'-' * 80}")
                print(f"seeds {arguments.first} to {done - 1}: {failed} failures", flush=True)
        except BrokenProcessPool:
            return _crashed(done)
    kinds = Counter(arguments.kind or kind_of(seed) for seed in range(arguments.first, last))
    print(f"{dict(kinds)}: {failed} failures; {time.monotonic() - started:.0f} s")
    return int(bool(failed))


def _crashed(first: int) -> int:
    print(f"the program crashed its own process; `--from {first} --as-process` finds the seed")
    return 1


def _chunk(given: tuple[range, str | None, bool]) -> list[str]:
    seeds, kind, as_process = given
    return list(failures(seeds, kind, as_process=as_process))


if __name__ == "__main__":
    sys.exit(main())
