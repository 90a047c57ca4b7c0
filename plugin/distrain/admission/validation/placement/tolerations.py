"""Validate the tolerations of a pod."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import invalid, not_supported
from distrain.admission.validation.names import label_value, of_each, qualified_name

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists")
WITHOUT_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
WITH_SECONDS = "effect must be 'NoExecute' when `tolerationSeconds` is set"


def of_toleration(path: str, toleration: kube.TemplateToleration) -> Iterator[str]:
    """Validate a toleration."""
    operator, effect = toleration.operator or "", toleration.effect or ""
    if toleration.key:
        yield from of_each(f"{path}.key", toleration.key, qualified_name)
    elif operator != "Exists":
        yield invalid(f"{path}.operator", operator, WITHOUT_KEY)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, WITH_SECONDS)
    yield from _of_operator(f"{path}.operator", operator, toleration.value or "")
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def _of_operator(path: str, operator: str, value: str) -> Iterator[str]:
    if operator not in ("", *OPERATORS):
        yield not_supported(path, operator, OPERATORS)
    elif operator == "Exists":
        if value:
            yield invalid(path, value, "value must be empty when `operator` is 'Exists'")
    elif wrong := label_value(value):
        yield invalid(path, value, ";".join(wrong))
