"""Complete the user's values: the split of the GPUs over workers, the workers' resources, and figures about the run.

A value that the user has set stays unchanged. If a value of the user conflicts with the derived value, a note reports
the conflict. A comment marks each derived line, and only marked lines are replaced. So if `derive` runs a second time,
it changes nothing. If a user removes the comment from a line, that value counts as the user's own. Slots, world size,
host list and environment are not written, because the chart's templates compute them from these values.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from distrain import temporary
from distrain.derive.footer import HEAD, stale_lines, with_footer, without_footer
from distrain.derive.rendering import UNINSTALLED
from distrain.derive.room import Room
from distrain.derive.workers import CPU, GPUS, MARK, MEMORY, REPLICAS, SHM, Line, Lines, Work, lines_of, needs_nodes
from distrain.errors import ValuesError
from distrain.helm.chart import chart_schema
from distrain.helm.program import Source
from distrain.helm.render import Helm, Values
from distrain.values import commented_yaml
from distrain.yaml import yaml_loader, yaml_writer

if TYPE_CHECKING:
    from distrain.derive.figures import Figure
    from distrain.workload.manifest import Job

NEXT_STEP = "run `helm distrain derive` with this file and keep what it prints"

# A function that measures the nodes' free capacity for a job. Its first argument is a function that renders the job,
# and its second argument is the name of the GPU resource. In the rendered job, the GPUs, CPUs and memory of the workers
# are not set yet.
Measure = Callable[[Callable[[], "Job"], str], Room]


class Given(Struct, frozen=True):
    """The input: the texts of the values files in Helm's order, and the chart with all flags for values.

    `measure` returns the nodes that the user has described, or None if the user has described none. `meanwhile` is
    called while Helm renders the job, so that the caller can do other work in this time.
    """

    helm: Helm
    source: Source
    texts: tuple[str, ...]
    measure: Measure | None
    meanwhile: Callable[[], None] | None = None


class Derived(Struct):
    """The completed file, its values in the schema's order, notes for the user, and outdated lines of the input."""

    text: str
    values: dict[str, Any]
    notes: list[str]
    stale: list[str]


def derive(given: Given, *, ask: Measure | None) -> Derived:
    """Complete the values and append the figures of the run. The arguments and errors are those of `complete`."""
    derived = complete(given, ask=ask)
    if derived.text:
        told = _figures(given, derived.text)
        derived.text = with_footer(derived.text, told)
        if _was_derived(given):
            derived.stale += stale_lines("\n".join(given.texts), told)
    return derived


def complete(given: Given, *, ask: Measure | None, is_for_people: bool = True) -> Derived:
    """Complete the values.

    Without `is_for_people`, the text may lack the user's comments, because only Helm reads it.

    `ask` returns the cluster's nodes. It is called only if the nodes must be known to divide the total of GPUs among
    workers. If the nodes must be known but `ask` is None, the result has an empty text and one message: the file does
    not divide its total of GPUs yet, or divides another total. Raises ValuesError if values contradict each other, or
    if the GPUs cannot be divided among workers.
    """
    schema = chart_schema(given.source.chart)
    values = given.helm.values(given.source)
    if values.merged["job"]["enabled"] is False:
        raise ValuesError("job.enabled: is false, so there is nothing to derive; set it to true")
    document = _document(given.texts, values, schema)
    work = _work(document, Work(values.given, values.merged, values.defaults))
    lines = _lines(given, work, ask)
    if lines is None:
        return Derived("", {}, [], [_unspread(work)])
    # A derived line is stale if another value would be derived now. If no earlier run has written derived lines into
    # this file, only the number of workers, and of GPUs per worker, can be stale.
    stale = list(_stale(work, lines if _was_derived(given) else _spread_of(lines)))
    _write(document, work, lines)
    text = _settled(given, document, work, lines, schema)
    if not text:
        _refuse_several_documents(given)
        text = _uncommented(_expected(work, lines), is_for_people=is_for_people)
    return Derived(text, _ordered(_expected(work, lines), schema), work.notes, stale)


def _was_derived(given: Given) -> bool:
    return any(MARK in text or HEAD in text for text in given.texts)


def _spread_of(lines: Lines) -> Lines:
    return {path: line for path, line in lines.items() if path in (REPLICAS, GPUS)}


def completed_source(given: Given, ask: Measure) -> tuple[Source, list[str]]:
    """Return the source with the completed values as its stdin, and notes on how the GPUs were split."""
    derived = complete(given, ask=ask, is_for_people=False)
    return given.source.with_text(derived.text), derived.notes


def leaves_open(given: Given, merged: Mapping[str, Any], *, is_final: bool) -> bool:
    """Tell whether a value must be derived: a split of the GPUs, a line marked as derived, or the size of /dev/shm.

    `merged` are the values with the chart's defaults. `is_final` means that the values will be installed, and not only
    judged.
    """
    own = given.helm.given_values(given.source)
    workers = own.get("workers") or {}
    if any(MARK in text for text in given.texts):
        return True
    if is_unspread(own):
        return True
    return is_final and int((merged.get("workers") or {}).get("gpus") or 0) > 1 and "shm" not in workers


def is_unspread(own: Mapping[str, Any]) -> bool:
    """Tell whether the given values have a total of GPUs but neither the number nor the size of the workers."""
    return own.get("gpus") is not None and not {"replicas", "gpus"} <= (own.get("workers") or {}).keys()


def _document(texts: Sequence[str], values: Values, schema: Mapping[str, Any]) -> commented_yaml.Section:
    """Merge the files into one document and add the values from flags."""
    document = commented_yaml.Section()
    for number, content in enumerate(texts):
        section = _parsed(content, schema)
        if number:
            document.head += section.head
            document.merge(section)
        else:
            document = section
    _set(document, (), values.files, values.given)
    return document


def _parsed(text: str, schema: Mapping[str, Any]) -> commented_yaml.Section:
    return commented_yaml.parse(without_footer(text), schema)


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
    """Some values in `own` were derived by an earlier run. Move them to `before`."""
    for path in (REPLICAS, GPUS, CPU, MEMORY, SHM):
        entry = document.find(path)
        if entry and entry.remark.startswith(MARK) and work.has(path):
            value = work.own[path[0]].pop(path[1])
            work.before[path] = Line(value, entry.remark.removeprefix(MARK))
    if not work.own.get("workers", True):
        del work.own["workers"]
    return work


def _lines(given: Given, work: Work, ask: Measure | None) -> Lines | None:
    """Return the derived lines, or None if they depend on the cluster's nodes but the cluster must not be asked."""
    if given.measure is None and needs_nodes(work):
        if not work.gpu_resource:
            raise ValuesError(
                "workers.gpuResource: is empty, so the GPUs per node are unknown; set workers.replicas and "
                "workers.gpus, or add --node-gpus N, the GPUs of a node"
            )
        return lines_of(work, room_of(given, work, ask)) if ask else None
    return lines_of(work, room_of(given, work, given.measure) if given.measure else None)


def room_of(given: Given, work: Work, measure: Measure) -> Room:
    """Return the nodes' capacity for the rendered job, whose number and size of workers are not set yet."""

    def render() -> Job:
        rendering = given.helm.render(source, UNINSTALLED)
        if given.meanwhile:
            given.meanwhile()
        return rendering.job()

    workers = work.full["workers"]
    # A PyTorchJob with two workers has both roles, Master and Worker. The real number of workers is set later.
    replicas = min(max(2, workers.get("minReplicas") or 1), workers.get("maxReplicas") or 1000)
    settings = ["gpus=null", f"workers.replicas={replicas}", "workers.gpus=1"]
    settings += [f"{'.'.join(path)}=null" for path in (CPU, MEMORY) if not work.has(path)]
    source = given.source._replace(flags=(*given.source.flags, "--set", ",".join(settings)))
    room = measure(render, work.gpu_resource)
    if work.total and not room.largest:
        raise ValuesError(
            f"workers.gpuResource: no node on which the workers may run offers {work.gpu_resource}; "
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
    """Return the document's text, or an empty text if this module cannot edit the document.

    The file's values are sorted in the schema's order, unless sorting breaks the YAML, or there is nothing to add or to
    change in the file.
    """
    expected = _expected(work, lines)
    unsorted = commented_yaml.text(document)
    if [unsorted] != [commented_yaml.text(_parsed(content, schema)) for content in given.texts]:
        document.sort(schema)
    for body in _bodies(document, unsorted, lines, expected):
        with suppress(ValuesError):  # Sorting may have moved a YAML alias before its anchor.
            if _says(body, expected) or given.helm.given_values(given.source.with_text(body)) == expected:
                return body
    return ""


def _bodies(
    document: commented_yaml.Section, unsorted: str, lines: Lines, expected: Mapping[str, Any]
) -> Iterator[str]:
    yield commented_yaml.text(document)
    yield unsorted
    # A later file or a flag may have replaced the value of an anchor, whose aliases keep the former value.
    document.write_out(expected)
    for path, line in lines.items():
        document.set(path, line.value, line.remark)
    yield commented_yaml.text(document)


def _uncommented(expected: Mapping[str, Any], *, is_for_people: bool) -> str:
    """Return the values without the user's comments; raise ValuesError if people read the text."""
    if is_for_people:
        raise ValuesError(
            "values: distrain cannot add lines to this YAML; write its sections as blocks of KEY: VALUE lines"
        )
    return yaml_writer.dump(expected)


def _refuse_several_documents(given: Given) -> None:
    """Raise ValuesError if a values file contains several YAML documents."""
    for path, content in zip(given.source.files, given.texts, strict=True):
        if commented_yaml.holds_several_documents(content):
            words = "contains several YAML documents; join them into one, without the line `---`"
            raise ValuesError(f"--values: {temporary.with_names(path)}: {words}")


def _figures(given: Given, body: str) -> list[Figure]:
    """Render the chart with the values in this text, and return the job's figures."""
    source = given.source.with_text(body)
    rendering = given.helm.render(source, UNINSTALLED)
    # Imported while Helm runs in parallel, because this import takes about as long as Helm.
    from distrain.derive.figures import figures, size_of, trainer_of
    from distrain.derive.qos import qos_class

    job = rendering.job()
    gpu_resource = given.helm.merged_values(given.source)["workers"]["gpuResource"]
    qos = qos_class(job.main.spec)
    return [*figures(size_of(job, gpu_resource), trainer_of(job)), *([("QoS class", qos)] if qos else [])]


def _says(text: str, values: Mapping[str, Any]) -> bool:
    """Tell whether the text contains exactly these values.

    The result may be False although the values are equal, because Helm reads large numbers as floats. So if the result
    is False, the caller asks Helm whether the values are equal.
    """
    try:
        found = yaml_loader.load(text)
        return json.dumps(found, sort_keys=True) == json.dumps(values, sort_keys=True)
    except (TypeError, ValueError):
        return False


def _expected(work: Work, lines: Lines) -> dict[str, Any]:
    expected = copy.deepcopy(work.own)
    for (section, key), line in lines.items():
        expected[section] = {**(expected.get(section) or {}), key: line.value}
    return expected


def _stale(work: Work, lines: Lines) -> list[str]:
    """Return one message for each derived value that is missing in the file, outdated, or not needed any more."""
    found = []
    for path, line in lines.items():
        before = work.before.get(path)
        if before is None or before.value != line.value:
            now = before.value if before else "nothing"
            found.append(f"{'.'.join(path)}: found {now}, expected {line.value} ({line.source}); {NEXT_STEP}")
    for path, line in work.before.items():
        if path not in lines and not work.has(path):
            found.append(f"{'.'.join(path)}: found {line.value}, expected nothing; {NEXT_STEP}")
    return found


def _unspread(work: Work) -> str:
    total = work.total
    before = {path: work.before[path].value for path in (REPLICAS, GPUS) if path in work.before}
    if not before:
        return f"gpus: {total} is not divided into workers.replicas and workers.gpus yet; {NEXT_STEP}"
    replicas, gpus = (work.value(path, work.before) for path in (REPLICAS, GPUS))
    found = f"found {replicas} x workers.gpus {gpus} = {replicas * gpus}"
    return f"workers.replicas: {found}, expected gpus {total}; {NEXT_STEP}"


def _ordered(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values sorted in the schema's order, at every level."""
    properties = schema.get("properties", {})
    names = sorted(given, key=lambda name: list(properties).index(name) if name in properties else -1)
    return {
        name: _ordered(given[name], properties.get(name, {})) if isinstance(given[name], dict) else given[name]
        for name in names
    }
