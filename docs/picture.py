"""Generate the diagram in docs/architecture.md from schemas/kinds.yaml and the rendered jobs: `make docs`.

The rendered jobs are the files in tests/chart/golden, which the chart's tests compare with the chart's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lab.paths import REPOSITORY
from lab.written_part import with_part

TARGET = Path(__file__).with_name("architecture.md")
GOLDEN = REPOSITORY / "tests" / "chart" / "golden"
BEGIN = "<!-- drawn by `make docs` -->\n"
# Maps each kind of job to the golden file from which its pods are drawn.
FORMS = {
    "MPIJob": "mpijob-v2beta1",
    "Plain": "plain",
    "PyTorchJob": "pytorchjob-elastic",
    "MXJob": "mxjob-v1",
    "TFJob": "tfjob",
}
HEAD = """\
```mermaid
flowchart TB
  values([values file]) --> plugin["helm distrain: derive, check, plan"] --> chart["charts/distrain"]
  values --> chart --> server["API server"]
"""
FOOT = """\
  rank["each rank: python3 -m distrain_trainer, or your command"] --> log["log: status and logs read it"]
  rank --> storage["S3 or a volume: model, record, checkpoints"]
```
"""


def picture() -> str:
    """Return the diagram in Mermaid syntax."""
    facts = {
        kind["name"]: kind for kind in yaml.safe_load((REPOSITORY / "schemas" / "kinds.yaml").read_text())["kinds"]
    }
    return HEAD + "".join(f"  {line}\n" for kind in FORMS for line in _kind(facts[kind])) + FOOT


def _kind(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the diagram's lines for one kind of job: its operator and its roles.

    Each role's line names the script that runs as process 1 of the role's containers.
    """
    name, starter = facts["name"], facts.get("starter", "")
    operators = facts["versions"][0]["operators"] if facts["versions"] else ["Kubernetes itself"]
    yield f"server -- {operators[0]} --> {name}"
    yield f"subgraph {name}"
    for role, script in _roles(facts):
        is_above_ranks = starter and script in ("distrain-launch", "distrain-torchrun")
        yield f'  {name}_{role}["{role}: {script}{", " + starter if is_above_ranks else ""}"]'
    yield "end"
    yield f"{name} --> rank"


def _roles(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    text = (GOLDEN / f"{FORMS[facts['name']]}.yaml").read_text(encoding="utf-8")
    for document in yaml.safe_load_all(text):
        if document["kind"] == facts["name"]:
            for role, replica in document["spec"][facts["replicas"]].items():
                yield role.lower(), _script(replica)
        elif document["kind"] == "Job" and facts["name"] == "Plain":
            yield document["metadata"]["name"].rpartition("-")[2], _script(document["spec"])


def _script(replica: dict[str, Any]) -> str:
    return str(replica["template"]["spec"]["containers"][0]["command"][0]).rpartition("/")[2]


def document() -> str:
    """Return the text of docs/architecture.md with the current diagram."""
    return with_part(TARGET.read_text(encoding="utf-8"), BEGIN, picture())


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET}")
