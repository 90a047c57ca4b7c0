"""`make bench-client`: install, upgrade and rescale a release on the lab while a fault hits the client.

After each case, the program reads the release's state from the cluster. The results of finished cases are cached under
a hash of the code. If the program is stopped and started again, it runs only the missing cases. The program prints the
table for docs/plugin.md, and exits with 1 if a case broke a rule.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lab.cluster import client as lab_client
from lab.cluster import lifecycle
from lab.errors import LabError
from lab.paths import CACHE_DIR, CHART, KUBECONFIG, REPOSITORY
from tests.cluster.client_faults import proxy, release_state, rules
from tests.cluster.client_faults.cases import COMMANDS, INSTALL, Case, cases
from tests.cluster.client_faults.faults import AWAY, FULL, SIGNALS, STREAMS, Client
from tests.cluster.client_faults.release_state import BEFORE, CHANGED, NAME, ROLLED_BACK
from tests.cluster.client_faults.rules import Line

# The bench lets `install --wait` wait this many seconds for the job. Then the bench marks the job as finished, so that
# `install --wait` ends.
SECONDS_FOLLOWED = 5
# A command sends its requests in pieces of data, whose number differs slightly between two runs. The moments at which a
# fault hits are spread over the number of pieces that an undisturbed run has sent. If a run ends before the moment of
# its fault, the bench repeats it with a smaller share of that number. These are the shares, in the order in which they
# are tried.
SHARES = (1.0, 0.9, 0.8, 0.65, 0.5)


def main() -> int:
    """Run the missing cases, and print the table. Return 1 if a case broke a rule."""
    parser = argparse.ArgumentParser(prog="make bench-client")
    parser.add_argument("--jobs", type=int, default=4, help="cases that run at the same time")
    parser.add_argument("--only", default="", help="run only cases whose name contains these words")
    parser.add_argument("--prefix", default="client-faults", help="what the names of the namespaces begin with")
    options = parser.parse_args()
    if not lifecycle.is_ready():
        sys.exit("bench-client: the lab is not running; start it with `make cluster`")
    # A shell makes its background jobs ignore SIGINT, and their children inherit that. The bench must undo this,
    # because its cases interrupt the plugin with SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = CACHE_DIR / "client-faults" / f"{code_hash()}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    print(f"results: {results}", flush=True)
    lock = threading.Lock()

    def run(case: Case) -> None:
        line = one_case(case, read(results), f"{options.prefix}-{uuid.uuid4().hex[:8]}")
        with lock, results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(told(line), flush=True)

    done = {tuple(line["case"]) for line in read(results)}
    missing = [case for case in cases() if case not in done and options.only in " ".join(map(str, case))]
    # Run each command without a fault first, to learn how many pieces of data it sends. The moments of the other cases'
    # faults are computed from this number.
    for batch in ([each for each in missing if not each.fault], [each for each in missing if each.fault]):
        pool = ThreadPoolExecutor(options.jobs)
        try:
            list(pool.map(run, batch))
        except KeyboardInterrupt:
            sys.exit("bench-client: stopped; the same command continues")
        finally:  # After Ctrl-C, wait until the running cases have removed their namespaces.
            pool.shutdown(cancel_futures=True)
    lines = read(results)
    print("\n".join(table(lines)))
    return int(any(map(rules.broken, lines)))


def one_case(case: Case, lines: list[Line], namespace: str) -> Line:
    """Run a case in a new namespace, and return its result.

    The command may end before the fault's moment, because it sent fewer pieces of data than in the run without a fault.
    If so, run the case again with an earlier moment.
    """
    pieces = next((line["pieces"] for line in lines if line["case"][:2] == [case.command, ""]), 0)
    for number, share in enumerate(SHARES):
        line = _once(case, int(pieces * share), f"{namespace}-{number}")
        if line["is_reached"]:
            break
    return line


def _once(case: Case, pieces: int, namespace: str) -> Line:
    with tempfile.TemporaryDirectory() as name, proxy.before(KUBECONFIG, Path(name)) as (api, kubeconfig):
        client = Client(Path(name), kubeconfig, api)
        with _removed(namespace), _finished(namespace if case.command == "install --wait" else ""):
            if not case.command.startswith("install"):
                assert client.run([*INSTALL, "-n", namespace]).code == 0
            return _one_run(case, client, namespace, pieces)


def _one_run(case: Case, client: Client, namespace: str, pieces: int) -> Line:
    command, before = [*COMMANDS[case.command], "-n", namespace], client.proxy.pieces
    moment, answered = case.at(pieces)
    started = time.monotonic()
    ended = [client.run(command, case.fault, moment, answered=answered)]
    seconds, count = round(time.monotonic() - started), client.proxy.pieces - before
    words = [release_state.read(namespace).word(case.command)]
    if case.fault.startswith("SIGKILL"):
        ended.append(client.run(command))
    state = release_state.read(namespace)
    words.append(state.word(case.command))
    return {
        "case": case,
        "pieces": count,
        "at": (moment, answered),
        "is_reached": not moment or client.proxy.is_reached,
        "seconds": seconds,
        "codes": [each.code for each in ended],
        "states": words,
        "has_namespace": state.has_namespace,
        "lines": [each.lines[-6:] for each in ended],
    }


@contextmanager
def _removed(namespace: str) -> Iterator[None]:
    """Remove the namespace after the case. The tested command has created the namespace."""
    try:
        yield
    finally:
        lab_client.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


@contextmanager
def _finished(namespace: str) -> Iterator[None]:
    """SECONDS_FOLLOWED seconds after the job was created in the namespace, mark it as Succeeded.

    The operator would never do so, because the job's pods never start.
    """
    ended = threading.Event()

    def finish() -> None:
        status = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
        patch = ["patch", "pytorchjob", NAME, "--subresource=status", "--type=merge", "-p", json.dumps(status)]
        while not ended.wait(0.5):
            with contextlib.suppress(LabError):
                lab_client.kubectl("-n", namespace, "get", "pytorchjob", NAME)
                ended.wait(SECONDS_FOLLOWED)
                lab_client.kubectl("-n", namespace, *patch)
                return

    thread = threading.Thread(target=finish)
    if namespace:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if namespace:
            thread.join()


def code_hash() -> str:
    """Return a hash of the plugin, the chart and the bench's own modules."""
    files = [*(REPOSITORY / "plugin").rglob("*.py"), *CHART.rglob("*")]
    files += [Path(__file__).with_name(f"{name}.py") for name in ("cases", "faults", "proxy", "release_state")]
    parts = [path.read_bytes() for path in sorted(files) if path.is_file()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def read(results: Path) -> list[Line]:
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []


def told(line: Line) -> str:
    command, fault, moment, moments = line["case"]
    where = f" {moment}/{moments}" if moments else ""
    state = f"{line['states'][-1]} (exit {', '.join(map(str, line['codes']))}, {line['seconds']} s)"
    broken = rules.broken(line)
    words = "\n    ".join(["", f"BROKEN: {broken}", *line["lines"][-1]]) if broken else ""
    return f"{command}, {fault or 'no fault'}{where}: {state}{words}"


def table(lines: list[Line]) -> list[str]:
    """Return a Markdown table with one row per fault and one column per command.

    A cell lists the states in which the release ended. After each state come the number of cases that ended in it, and
    the exit codes of the command.
    """
    rows = [["what happens", *COMMANDS], ["---"] * (1 + len(COMMANDS))]
    for fault in ("", *STREAMS, FULL, *SIGNALS, AWAY):
        rows.append([f"`{fault}`" if fault in STREAMS else fault or "nothing"])
        rows[-1] += [_cell([line for line in lines if line["case"][:2] == [command, fault]]) for command in COMMANDS]
    return [f"| {' | '.join(row)} |" for row in rows]


def _cell(lines: list[Line]) -> str:
    found: dict[str, list[int]] = {}
    for line in lines:
        found.setdefault(_kind(line["states"][-1]), []).append(line["codes"][-1])
    return "; ".join(f"{_count(codes, lines)}{kind} ({_listed(codes)})" for kind, codes in sorted(found.items()))


def _kind(state: str) -> str:
    return state if state in (BEFORE, CHANGED, ROLLED_BACK) else "half-done"


def _count(codes: list[int], lines: list[Line]) -> str:
    return f"{len(codes)} " if len(codes) < len(lines) else ""


def _listed(codes: list[int]) -> str:
    return ", ".join(map(str, sorted(set(codes))))


if __name__ == "__main__":
    sys.exit(main())
