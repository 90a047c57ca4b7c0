"""Write the files that manifest scanners check: the pods of the jobs in values/, and the chart's other objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.chart.many import Request, render_many
from tests.chart.rendering import VALUES

FILES = sorted(VALUES.glob("*.yaml"))


def documents(manifest: str) -> Iterator[dict[str, Any]]:
    """Yield every object of a manifest, including the items of a List."""
    for document in yaml.load_all(manifest, yaml.CSafeLoader):
        yield from document["items"] if document["kind"] == "List" else [document]


def templates(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every pod or pod template in an object, at any depth."""
    if isinstance(part, dict):
        if isinstance(part.get("spec"), dict) and "containers" in part["spec"]:
            yield part
        else:
            for inner in part.values():
                yield from templates(inner)


def expanded(manifest: str) -> Iterator[dict[str, Any]]:
    """Yield a Pod for each pod template, without the operators' additions, and every object without a pod template."""
    for document in documents(manifest):
        found = list(templates(document))
        for index, template in enumerate(found):
            name = f"{document['metadata']['name']}-{index}"
            metadata = {"namespace": "team", **template.get("metadata", {}), "name": name}
            # Add the label that Kubernetes gives a Job's pods, because a Service may select pods by this label.
            labels = {"batch.kubernetes.io/job-name": document["metadata"]["name"]} if document["kind"] == "Job" else {}
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        if not found:
            yield {**document, "metadata": {"namespace": "team", **document["metadata"]}}


def distinct_pods(manifests: Iterable[str]) -> list[dict[str, Any]]:
    """Return the distinct pods. Pods that differ only in names, arguments and environment variables count as one."""
    pods = (each for manifest in manifests for each in expanded(manifest) if each["kind"] == "Pod")
    shapes: dict[str, dict[str, Any]] = {}
    for pod in pods:
        shapes.setdefault(json.dumps(_shape(pod["spec"]), sort_keys=True), pod)
    return list(shapes.values())


def _shape(part: Any) -> Any:
    if isinstance(part, list):
        return [_shape(each) for each in part]
    if isinstance(part, dict):
        return {key: _shape(each) for key, each in part.items() if key not in ("args", "command", "env", "name")}
    return part


def write(folder: Path) -> None:
    """Write one file for each file in values/."""
    requests = [
        Request(file.stem, yaml.safe_load(file.read_text(encoding="utf-8")), namespace="team", helms=("helm4",))
        for file in FILES
    ]
    for file, answer in zip(FILES, render_many(requests), strict=True):
        objects = list(expanded(answer["helm4"].manifest))
        (folder / file.name).write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
