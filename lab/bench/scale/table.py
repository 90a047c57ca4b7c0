"""Write the tables of docs/scale.md from the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.paths import REPOSITORY
from lab.written_part import with_part

Line = dict[str, Any]

PAGE = REPOSITORY / "docs" / "scale.md"
BEGIN = "<!-- made by make bench-scale -->\n"


def write(lines: Sequence[Line]) -> None:
    """Replace the tables in docs/scale.md."""
    PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, text(lines)), encoding="utf-8")


def text(lines: Sequence[Line]) -> str:
    """Return a sentence about the machine, one table for each kind, and a table for several runs at the same time."""
    kinds = dict.fromkeys(line["case"][0] for line in lines)
    parts = [_machines(lines)]
    for kind in kinds:
        of_kind = [line for line in lines if line["case"][0] == kind and line["case"][2] == 1]
        parts.append(_table(kind, [f"{line['case'][1]:,} workers" for line in of_kind], of_kind))
    if several := [line for line in lines if line["case"][2] > 1]:
        kind, workers, _ = several[0]["case"]
        title = f"{kind}, {workers} workers a run"
        parts.append(_table(title, [f"{line['case'][2]} runs at once" for line in several], several))
    return "\n".join(parts)


def _machines(lines: Sequence[Line]) -> str:
    found = {(line["date"], line["cores"], line["gigabytes"]) for line in lines}
    words = ", ".join(f"{date} on {cores} cores and {memory} GiB" for date, cores, memory in sorted(found))
    return f"Measured on {words}, which the control plane, KWOK and the client share.\n"


def _table(title: str, columns: Sequence[str], lines: Sequence[Line]) -> str:
    rows = [[title, *columns], ["---"] * (1 + len(columns)), *_rows(lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(lines: Sequence[Line]) -> Iterator[list[str]]:
    for step in lines[0]["steps"]:
        yield [step, *(_measured(*line["steps"][step]) for line in lines)]
        if step in lines[0]["waits"]:
            until = "until the pods are gone" if step == "uninstall" else "until all pods run"
            yield [f"{step}: {until}", *(f"{line['waits'][step]:.0f} s" for line in lines)]
    found = [line["objects"] for line in lines]
    yield ["objects in the namespace", *(f"{number:,}" for number, *_ in found)]
    yield ["largest object", *(f"{name.split()[0]}, {_bytes(size)}" for _, (name, size), *_ in found)]
    yield ["hostfile's ConfigMap", *(_bytes(size) if size else "none" for *_, size, _ in found)]
    yield ["Helm's record", *(_bytes(size) for *_, size in found)]


def _measured(seconds: float, megabytes: float | None) -> str:
    """Format a command's seconds and megabytes for a table cell.

    If the bench did not measure the memory, return only the seconds.
    """
    return f"{seconds:.1f} s" + (f", {megabytes:.0f} MB" if megabytes else "")


def _bytes(size: int) -> str:
    return f"{size / 1024:,.0f} KiB"
