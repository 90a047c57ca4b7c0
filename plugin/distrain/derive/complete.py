"""Fill in what follows from the user's values: the split of the GPUs, what a worker gets, and the figures of the run.

What the user has set stays, and is reported where it goes against what would follow. A line that was derived says so
beside it, and is the only kind that is ever replaced: so deriving twice changes nothing, and a figure whose comment the
user takes away is the user's. Slots, world size, host list and environment are not written down: the chart's templates
make them of these values.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct

from distrain.derive.footer import stale_lines, with_footer, without_footer
from distrain.derive.room import Room
from distrain.derive.workers import CPU, GPUS, MARK, MEMORY, REPLICAS, SHM, Line, Lines, Work, lines_of, needs_nodes
from distrain.errors import ValuesError
from distrain.helm.program import Source
from distrain.helm.render import Helm, Values
from distrain.kube.yaml_loader import LOADER
from distrain.values import commented_yaml

if TYPE_CHECKING:
    from distrain.derive.figures import Figure
    from distrain.workload.manifest import Job

RELEASE, NAMESPACE = "derive", "default"
NEXT_STEP = "run `helm distrain derive` with this file and keep what it prints"

# Gives the nodes for a job whose workers are yet to be sized, which is rendered on demand, and the name of their GPUs.
Measure = Callable[[Callable[[], "Job"], str], Room]


class Given(Struct, frozen=True):
    """What there is to derive from: the files' texts, in Helm's order, and the values as Helm merges them.

    `measure` gives the nodes that the user has stated, if any.
    """

    helm: Helm
    source: Source
    texts: tuple[str, ...]
    measure: Measure | None


class Derived(Struct):
    """The values file, its values in the schema's order, what to tell the user, and what the given file has wrong."""

    text: str
    values: dict[str, Any]
    notes: list[str]
    stale: list[str]


def derive(given: Given, *, ask: Measure | None) -> Derived:
    """Return the completed values, with the figures of the run; all else is as `complete` has it."""
    derived = complete(given, ask=ask)
    if derived.text:
        told = _figures(given, derived.text)
        derived.text = with_footer(derived.text, told)
        derived.stale += stale_lines("\n".join(given.texts), told)
    return derived


def complete(given: Given, *, ask: Measure | None) -> Derived:
    """Return the completed values.

    `ask` gives the cluster's nodes, and is called only where the total cannot be spread without them; with None the
    file is said to be stale there, and the text is empty. Raises ValuesError for what contradicts itself or cannot be
    spread.
    """
    schema = json.loads((given.source.chart / "values.schema.json").read_text())
    values = given.helm.values(given.source)
    if values.merged["job"]["enabled"] is False:
        raise ValuesError("job.enabled: is false, so there is nothing to derive; set it to true")
    document = _document(given.texts, values, schema)
    work = _work(document, Work(values.given, values.merged, values.defaults))
    lines = _lines(given, work, ask)
    if lines is None:
        return Derived("", {}, [], [_unspread(work)])
    stale = list(_stale(work, lines))
    _write(document, work, lines)
    text = _settled(given, document, work, lines, schema)
    return Derived(text, _ordered(_expected(work, lines), schema), work.notes, stale)


def _document(texts: Sequence[str], values: Values, schema: Mapping[str, Any]) -> commented_yaml.Section:
    """Return the files merged into one, with what the flags set."""
    document = commented_yaml.Section()
    for number, content in enumerate(texts):
        section = commented_yaml.parse(without_footer(content), schema)
        if number:
            document.head += section.head
            document.merge(section)
        else:
            document = section
    _set(document, (), values.files, values.given)
    return document


def _set(
    document: commented_yaml.Section, path: tuple[str, ...], old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    for key, value in new.items():
        known = old.get(key)
        if isinstance(value, dict) and (isinstance(known, dict) or key not in old) and value:
            _set(document, (*path, key), known or {}, value)
        elif key not in old or known != value:
            entry = document.find((*path, key))
            remark = entry.remark if entry and not entry.remark.startswith(MARK) else ""
            document.set((*path, key), value, remark)


def _work(document: commented_yaml.Section, work: Work) -> Work:
    """Part what an earlier run derived from the user's own."""
    for path in (REPLICAS, GPUS, CPU, MEMORY, SHM):
        entry = document.find(path)
        if entry and entry.remark.startswith(MARK) and work.has(path):
            value = work.own[path[0]].pop(path[1])
            work.before[path] = Line(value, entry.remark.removeprefix(MARK))
    if not work.own.get("workers", True):
        del work.own["workers"]
    return work


def _lines(given: Given, work: Work, ask: Measure | None) -> Lines | None:
    """Return what follows, or None where the nodes are needed for it and may not be asked for."""
    if given.measure is None and needs_nodes(work):
        return lines_of(work, _room(given, work, ask)) if ask else None
    return lines_of(work, _room(given, work, given.measure) if given.measure else None)


def _room(given: Given, work: Work, measure: Measure) -> Room:
    """Return the nodes for the job as the chart renders it, but for its size."""

    def render() -> Job:
        from distrain.workload.manifest import from_manifest

        rendering = given.helm.render(RELEASE, source, NAMESPACE, None, has_valid_values=True, has_test=False)
        return from_manifest(rendering.manifest(), "--chart")

    workers = work.full["workers"]
    # Two, so that a PyTorchJob has a Master and a Worker; the size is put in later.
    replicas = min(max(2, workers.get("minReplicas") or 1), workers.get("maxReplicas") or 1000)
    settings = ["gpus=null", f"workers.replicas={replicas}", "workers.gpus=1"]
    settings += [f"{'.'.join(path)}=null" for path in (CPU, MEMORY) if not work.has(path)]
    source = given.source._replace(flags=(*given.source.flags, "--set", ",".join(settings)))
    room = measure(render, work.gpu_resource)
    if work.total and not room.largest:
        raise ValuesError(
            f"workers.gpuResource: no node that admits the workers offers {work.gpu_resource}; "
            "correct it, workers.nodeSelector or workers.tolerations, or add GPU nodes"
        )
    return room


def _write(document: commented_yaml.Section, work: Work, lines: Lines) -> None:
    for path, line in lines.items():
        if work.before.get(path) != line:
            document.set(path, line.value, line.remark)
    for path in work.before.keys() - lines.keys():
        if work.has(path):
            document.set(path, work.own[path[0]][path[1]])
        else:
            document.remove(path)


def _settled(
    given: Given, document: commented_yaml.Section, work: Work, lines: Lines, schema: Mapping[str, Any]
) -> str:
    """Return the text, in the schema's order where YAML allows it."""
    expected = _expected(work, lines)
    unsorted = commented_yaml.text(document)
    document.sort(schema)
    for body in (commented_yaml.text(document), unsorted):
        source = Source(given.source.chart, ("--values", "-"), body.encode())
        try:
            if _says(body, expected) or given.helm.given_values(source) == expected:
                return body
        except ValuesError:
            # An alias that has come to stand before its anchor.
            if body is unsorted:
                raise
    raise ValuesError("values: this YAML cannot be completed; write its sections as blocks of KEY: VALUE lines")


def _figures(given: Given, body: str) -> list[Figure]:
    """Return the figures of the job that the chart makes of the text."""
    source = Source(given.source.chart, ("--values", "-"), body.encode())
    # The schema has accepted what is given, and what is derived keeps to it.
    rendering = given.helm.render(RELEASE, source, NAMESPACE, None, has_valid_values=True, has_test=False)
    # Imported while Helm works, as it takes as long.
    from distrain.derive.figures import figures, size_of, trainer_of
    from distrain.workload.manifest import from_manifest

    job = from_manifest(rendering.manifest(), "--chart")
    gpu_resource = given.helm.merged_values(given.source)["workers"]["gpuResource"]
    return figures(size_of(job, gpu_resource), trainer_of(job))


def _says(text: str, values: Mapping[str, Any]) -> bool:
    """Tell whether the text holds these values beyond doubt: where Helm reads YAML otherwise, Helm has to be asked."""
    try:
        found = yaml.load(text, Loader=LOADER)
        return json.dumps(found, sort_keys=True) == json.dumps(values, sort_keys=True)
    except (yaml.YAMLError, TypeError, ValueError):
        return False


def _expected(work: Work, lines: Lines) -> dict[str, Any]:
    expected = copy.deepcopy(work.own)
    for (section, key), line in lines.items():
        expected[section] = {**(expected.get(section) or {}), key: line.value}
    return expected


def _stale(work: Work, lines: Lines) -> list[str]:
    """Say what of the derived values the file lacks, or has from another size."""
    found = []
    for path, line in lines.items():
        before = work.before.get(path)
        if before is None or before.value != line.value:
            now = before.value if before else "nothing"
            found.append(f"{'.'.join(path)}: found {now}, expected {line.value} ({line.source}); {NEXT_STEP}")
    for path in work.before.keys() - lines.keys():
        if not work.has(path):
            found.append(f"{'.'.join(path)}: found {work.before[path].value}, expected nothing; {NEXT_STEP}")
    return found


def _unspread(work: Work) -> str:
    total = work.total
    before = {path: work.before[path].value for path in (REPLICAS, GPUS) if path in work.before}
    if not before:
        return f"gpus: {total} is not spread over workers.replicas and workers.gpus yet; {NEXT_STEP}"
    replicas, gpus = (work.value(path, work.before) for path in (REPLICAS, GPUS))
    found = f"found {replicas} x workers.gpus {gpus} = {replicas * gpus}"
    return f"workers.replicas: {found}, expected gpus {total}; {NEXT_STEP}"


def _ordered(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in the schema's order, as the file has them."""
    properties = schema.get("properties", {})
    names = sorted(given, key=lambda name: list(properties).index(name) if name in properties else -1)
    return {
        name: _ordered(given[name], properties.get(name, {})) if isinstance(given[name], dict) else given[name]
        for name in names
    }
