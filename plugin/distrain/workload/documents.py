"""Read the objects of a rendered manifest, and list the mistakes in all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from distrain import kube
from distrain.errors import ValuesError
from distrain.kube import form
from distrain.kube.form import FormError
from distrain.kube.objects import Kube
from distrain.yaml import yaml_loader

T = TypeVar("T")
Item = dict[str, Any]

# Kubernetes apiserver pkg/storage/names/generate.go: the API server keeps at most MOST_OF_PREFIX characters of
# generateName in a generated name.
MOST_OF_PREFIX = 58
HOOK, HOOK_DELETION = "helm.sh/hook", "helm.sh/hook-delete-policy"
DATA_KINDS = (("v1", "ConfigMap"), ("v1", "Secret"))


class _Object(Kube):
    """The fields that are read from objects of every kind."""

    api_version: str = ""
    kind: str = ""
    metadata: kube.TemplateMetadata | None = None
    data: dict[str, str] | None = None


class _Data(Kube):
    """The fields of a ConfigMap or Secret, except for `data`."""

    binary_data: dict[str, str | None] | None = None
    string_data: dict[str, str | None] | None = None


class _List(Kube):
    items: list[dict[str, Any]] | None = None


def objects(manifest: str, origin: str) -> list[Item]:
    """Return the objects of a manifest, including those in its Lists.

    Raises ValuesError, which names the flag `origin`, if the manifest is not YAML or if an object has a wrong form.
    """
    try:
        documents = yaml_loader.load_all(manifest)
    except yaml_loader.NotYamlError as error:
        raise ValuesError(f"{origin}: {error}") from error
    numbered = [(f"document {number}", each) for number, each in enumerate(documents, start=1) if each is not None]
    items = [item for found in each_of(numbered, origin, _unpacked) for item in found]
    each_of([(name_of(item), item) for item in items], origin, _refuse_untyped)
    return items


def with_names(items: Iterable[Item]) -> tuple[list[Item], list[str]]:
    """Give names to the objects that have only a generateName. Return all objects, and a text about each new name.

    To a generateName, the API server appends five random letters and digits, but never a 0. The names that this
    function chooses end in x0001, x0002, and so on, so the API server cannot generate the same names.
    """
    named: list[Item] = []
    generated: list[str] = []
    for item in items:
        metadata = item.get("metadata") or {}
        prefix = metadata.get("generateName")
        if prefix and not metadata.get("name"):
            name = f"{prefix[:MOST_OF_PREFIX]}x{len(generated) + 1:04}"
            item = {**item, "metadata": {**metadata, "name": name}}
            generated.append(name_of(item))
        named.append(item)
    return named, generated


def refuse_nameless(items: Iterable[Item], origin: str) -> None:
    """Raise ValuesError for objects without a name, because no command can create them."""
    nameless = [name_of(item) for item in items if not (item.get("metadata") or {}).get("name")]
    if nameless:
        raise ValuesError(*(f"{origin}: {name}: metadata.name is missing; write it there" for name in nameless))


def refuse_twice(items: Iterable[Item], origin: str) -> None:
    """Raise ValuesError if the manifest contains an object twice: the second would replace the first or be refused."""
    named = Counter(filter(None, map(_identity, items)))
    twice = [
        f"{kind} {name}" + f" of namespace {namespace}" * bool(namespace)
        for (_, kind, namespace, name), times in named.items()
        if times > 1
    ]
    if twice:
        raise ValuesError(*(f"{origin}: {name} appears twice; remove one, or give it another name" for name in twice))


def _identity(item: Item) -> tuple[str, str, str, str] | None:
    """Return the group, the kind, the namespace and the name of an object, or None if the object has no name."""
    metadata, group = item.get("metadata") or {}, str(item.get("apiVersion")).rpartition("/")[0]
    name = metadata.get("name")
    return (group, str(item.get("kind")), metadata.get("namespace") or "", name) if name else None


def each_of(named: Iterable[tuple[str, Any]], origin: str, read: Callable[[Any], T]) -> list[T]:
    """Return the results of `read` for all objects.

    Raise ValuesError with the mistakes of all objects, by their names.
    """
    found, mistakes = [], []
    for name, item in named:
        try:
            found.append(read(item))
        except FormError as error:
            mistakes += [f"{origin}: {name}: {mistake}" for mistake in error.mistakes]
    if mistakes:
        raise ValuesError(*mistakes)
    return found


def with_amounts(item: Mapping[str, Any], kind: type[T], example: str) -> T:
    """Convert an object.

    Raise FormError if the object does not have the form of its kind, or if one of its amounts is not a quantity.
    """
    found = form.converted(item, kind)
    try:
        form.refuse_odd_amounts(found)
    except ValueError as error:
        raise FormError(f"{error}; write amounts such as {example}") from error
    return found


def name_of(item: Item) -> str:
    metadata = item.get("metadata")
    kind, name = item.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None
    words = (kind, "an object without a kind"), (name, "without a name" if kind else "and without a name")
    return " ".join(found if found and isinstance(found, str) else otherwise for found, otherwise in words)


def hook_of(item: Item) -> str | None:
    """If a resource is a Helm hook, return its events, such as "pre-install,pre-upgrade", otherwise None."""
    return _annotations(item).get(HOOK)


def is_made_before(item: Item) -> bool:
    """Tell whether an object exists when the job's pods are created. Helm may delete a hook before that."""
    hook = hook_of(item)
    return hook is None or ("pre-install" in hook and "hook-succeeded" not in _annotations(item).get(HOOK_DELETION, ""))


def missing(path: str, found: object, step: str) -> FormError:
    """Return the error for a missing field. `found` is the object that lacks the field; it may have a similar field."""
    names = list(found) if isinstance(found, dict) else []
    close = get_close_matches(path.rpartition(".")[2], names, n=1)
    return FormError(f"{path} is missing; " + (f"did you write {close[0]} instead?" if close else step))


def _annotations(item: Item) -> dict[str, str]:
    return (item.get("metadata") or {}).get("annotations") or {}


def _refuse_untyped(item: Item) -> None:
    form.converted(item, _Object)
    if (item.get("apiVersion"), item.get("kind")) in DATA_KINDS:
        form.converted(item, _Data)
    if not item.get("kind"):
        step = "write it there" if "apiVersion" in item else "write it there, or name a values file with -f"
        raise missing("kind", item, step)


def _unpacked(document: Any) -> list[Item]:
    if isinstance(document, dict) and _is_list(document):
        return [{**_item_type(document), **item} for item in form.converted(document, _List).items or []]
    if not isinstance(document, dict):
        raise FormError(f"found {form.NOUNS.get(type(document), 'something else')}; it needs a mapping of keys")
    return [document]


def _is_list(document: Item) -> bool:
    kind = document.get("kind")
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in document)


def _item_type(document: Item) -> Item:
    """Return the apiVersion and the kind for items of a list that have none.

    For example, the items of a JobList are Jobs. A plain `List` does not imply a type for its items.
    """
    kind = document["kind"].removesuffix("List")
    return {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
