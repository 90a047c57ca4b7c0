"""Read --labels, the labels of a revision's Secret, and --selector, which selects objects by their labels.

Wrong labels are refused here, because Helm and the API server would refuse them only after the old job has ended. A
wrong selector is refused here, because Helm and the API server would refuse it once for each kind of object.
"""

from __future__ import annotations

import argparse
import re

# Kubernetes apimachinery/pkg/util/validation, IsQualifiedName and IsValidLabelValue; compiled only where needed.
NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
PREFIX = r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
KEY, VALUE = rf"({PREFIX})?{NAME}", rf"({NAME})?"
# A term of a selector as the API server reads it (apimachinery/pkg/labels/selector.go).
SET = rf"\s+(?:in|notin)\s*\(\s*{VALUE}(?:\s*,\s*{VALUE})*\s*\)"
TERM = rf"!\s*{KEY}|{KEY}(?:\s*(?:==?|!=)\s*{VALUE}|{SET}|\s*[<>]\s*-?\d+)?"
# Helm uses these labels for its own records (pkg/storage/driver/util.go).
HELMS_OWN = ("name", "owner", "status", "version", "createdAt", "modifiedAt")


def labels(text: str) -> str:
    """Return the labels in Helm's form (KEY=VALUE,KEY=VALUE) if both Helm and Kubernetes allow them."""
    for pair in text.split(","):
        if words := _mistake(pair):
            raise argparse.ArgumentTypeError(words)
    return text


def _mistake(pair: str) -> str:
    """Return what is wrong with a label, or an empty string if nothing is wrong."""
    key, has_value, value = pair.partition("=")
    if not has_value:
        return f'"{pair}" is no label: write KEY=VALUE, as in team=a,cost=b'
    if not re.fullmatch(KEY, key):
        return f'"{key}" is no key of a label: write one such as team or example.com/team'
    if not re.fullmatch(VALUE, value):
        return f'"{value}" is no value of a label: use letters, digits, -, _ and ., 63 characters at most'
    return f'"{key}" is a label of Helm\'s own: choose another key' if key in HELMS_OWN else ""


def selector(text: str) -> str:
    """Return the selector if the API server can parse it; otherwise raise an error."""
    for term in re.split(r",(?![^(]*\))", text):
        if not re.fullmatch(TERM, term.strip()):
            words = "write KEY=VALUE, KEY!=VALUE, KEY in (A,B) or KEY, with commas between them"
            raise argparse.ArgumentTypeError(f'"{term.strip()}" selects no labels: {words}')
    return text
