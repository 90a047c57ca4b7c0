"""Validate names, labels and annotations (apimachinery pkg/util/validation/validation.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from distrain import kube
from distrain.admission.validation.field_errors import invalid, required, too_long
from distrain.workload.object_sizes import MOST_OF_ANNOTATIONS, annotations_size

# A function that checks a name and returns error messages.
Rule = Callable[[str], list[str]]

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
RELAXED_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
RELAXED_SUBDOMAIN = rf"{RELAXED_LABEL}(\.{RELAXED_LABEL})*"
QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE = f"({QUALIFIED})?"
PORT, LETTER = "[-a-z0-9]+", "[a-z]"
MOST_OF_LABEL, MOST_OF_SUBDOMAIN, MOST_OF_PORT = 63, 253, 15

_ENDS = "must start and end with an alphanumeric character"
_OF_LABEL = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}"
_OF_LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_OF_SUBDOMAIN = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}"
)
_OF_RELAXED = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and {_ENDS}"
)
_OF_QUALIFIED = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
_OF_VALUE = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"


def dns_label(name: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS label, such as a container's name."""
    found = _too_long(name, MOST_OF_LABEL)
    if not re.fullmatch(LABEL, name):
        has_dots = re.fullmatch(SUBDOMAIN, name)
        found.append("must not contain dots" if has_dots else _unlike(_OF_LABEL, LABEL, "my-name", "123-abc"))
    return found


def dns_1035_label(name: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS label and begin with a letter, such as a Service's name."""
    is_right = re.fullmatch(LABEL_1035, name)
    wrong = [] if is_right else [_unlike(_OF_LABEL_1035, LABEL_1035, "my-name", "abc-123")]
    return _too_long(name, MOST_OF_LABEL) + wrong


def dns_subdomain(name: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS subdomain, such as the name of a Pod or Job."""
    return _subdomain(name, SUBDOMAIN, _OF_SUBDOMAIN)


def relaxed_subdomain(name: str) -> list[str]:
    """Return what is wrong with a DNS subdomain that may contain underscores, such as a search domain."""
    return _subdomain(name, RELAXED_SUBDOMAIN, _OF_RELAXED)


def qualified_name(key: str) -> list[str]:
    """Return what is wrong with a label's key: a name, optionally preceded by the owner's DNS subdomain and a slash."""
    *prefixes, name = key.split("/")
    rule = _unlike(_OF_QUALIFIED, QUALIFIED, "MyName", "my.name", "123-abc")
    if len(prefixes) > 1:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {rule} {optional}"]
    found = [f"prefix part {wrong}" for prefix in prefixes for wrong in _empty(prefix) or dns_subdomain(prefix)]
    found += [f"name part {wrong}" for wrong in _empty(name) or _too_long(name, MOST_OF_LABEL)]
    return found if re.fullmatch(QUALIFIED, name) else [*found, f"name part {rule}"]


def label_value(value: str) -> list[str]:
    """Return what is wrong with the value of a label."""
    is_right = re.fullmatch(VALUE, value)
    wrong = [] if is_right else [_unlike(_OF_VALUE, VALUE, "MyValue", "my_value", "12345")]
    return _too_long(value, MOST_OF_LABEL) + wrong


def port_name(name: str) -> list[str]:
    """Return what is wrong with the name of a container's port."""
    found = _too_long(name, MOST_OF_PORT)
    if not re.fullmatch(PORT, name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(LETTER, name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    return [*found, "must not begin or end with a hyphen"] if name.strip("-") != name else found


def of_metadata(metadata: kube.TemplateMetadata, rule: Rule = dns_subdomain) -> Iterator[str]:
    """Validate an object's metadata; `rule` checks the object's name."""
    yield from _of_name(metadata, rule)
    if metadata.namespace:
        yield from of_each("metadata.namespace", metadata.namespace, dns_label)
    yield from of_labels("metadata.labels", metadata.labels)
    yield from of_annotations("metadata.annotations", metadata.annotations)


def of_labels(path: str, labels: Mapping[str, str] | None) -> Iterator[str]:
    for key, value in (labels or {}).items():
        yield from of_each(path, key, qualified_name)
        yield from of_each(path, value, label_value)


def of_annotations(path: str, annotations: Mapping[str, str] | None) -> Iterator[str]:
    annotations = annotations or {}
    for key in annotations:
        yield from (invalid(path, key, wrong) for wrong in qualified_name(key.lower()))
    size = annotations_size(annotations)
    if size > MOST_OF_ANNOTATIONS:
        yield too_long(path, size, MOST_OF_ANNOTATIONS)


def of_each(path: str, value: str, rule: Rule) -> Iterator[str]:
    """Yield a message for each thing that the rule finds wrong with the value."""
    return (invalid(path, value, wrong) for wrong in rule(value))


def _of_name(metadata: kube.TemplateMetadata, rule: Rule) -> Iterator[str]:
    if prefix := metadata.generate_name:
        # The prefix may end in a hyphen, because the API server appends letters and digits.
        wrong = rule(re.sub(".-$", "a", prefix))
        yield from (invalid("metadata.generateName", prefix, each) for each in wrong)
    if metadata.name:
        yield from of_each("metadata.name", metadata.name, rule)
    else:
        yield required("metadata.name", "name or generateName is required")


def _subdomain(name: str, pattern: str, rule: str) -> list[str]:
    wrong = [] if re.fullmatch(pattern, name) else [_unlike(rule, pattern, "example.com")]
    return _too_long(name, MOST_OF_SUBDOMAIN) + wrong


def _too_long(text: str, most: int) -> list[str]:
    return [f"must be no more than {most} characters"] if len(text.encode()) > most else []


def _empty(text: str) -> list[str]:
    return [] if text else ["must be non-empty"]


def _unlike(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
