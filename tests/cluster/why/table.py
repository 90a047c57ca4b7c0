"""Generate docs/causes.md: what `status` reports for each cause on the lab, by category.

python -m tests.cluster.why.table
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.paths import REPOSITORY
from tests.cluster.why.case import Case, Said
from tests.cluster.why.causes import admission, disruption, gang, kubelet, placement, program, storage

# The titles of the table's sections, with the causes in each.
SORTS: dict[str, Sequence[Case]] = {
    "The scheduler finds no node": placement.CASES,
    "The API server refuses the pods": admission.CASES,
    "Kubelet cannot start a container": kubelet.CASES,
    "The program fails": program.CASES,
    "The storage fails": storage.CASES,
    "Nodes and operators fail": disruption.CASES,
    "A gang scheduler holds the pods back": gang.CASES,
}


PAGE = REPOSITORY / "docs" / "causes.md"
HEAD = """# What status says of each cause

`helm distrain status run1` names the first cause that keeps a run from going on, and the next step. `make bench-why`
produces each cause of these tables on the lab's Kubernetes, and compares the words. Its user may only read pods, logs,
events, claims, jobs and PodGroups in the run's namespace.

The run is `run1` in the namespace `team`.
"""


def page() -> str:
    """Return the page's text."""
    return HEAD + "".join(f"{line}\n" for title, cases in SORTS.items() for line in _section(title, cases))


def _section(title: str, cases: Sequence[Case]) -> Iterator[str]:
    yield from ("", f"## {title}", "", "| cause | phase | why | next |", "|---|---|---|---|")
    yield from (_row(case.name, case.said) for case in cases)


def _row(name: str, said: Said) -> str:
    words = [each.replace("|", "\\|") for each in (name, said.phase, said.why, said.next)]
    return f"| {' | '.join(words)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
