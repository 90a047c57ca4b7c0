"""Test the annotations of all hooks: whether Helm prints the logs of hook Pods, and what Argo CD obeys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import HOOK, OUTPUT, annotation, documents, of_kind
from tests.chart.kinds import KINDS, every_kind
from tests.chart.templates.objects.everything import everything

PREFLIGHT = "preflight.enabled=true"


@every_kind
def test_no_annotation_ends_flux_unless_a_value_asks_for_it(helm: Path, kind: str) -> None:
    # https://github.com/fluxcd/helm-controller/issues/1562
    found = documents(helm, *KINDS[kind], PREFLIGHT)

    assert OUTPUT not in str(found)


def test_people_at_a_terminal_can_have_every_log_printed(helm: Path) -> None:
    pods = of_kind(documents(helm, PREFLIGHT, "hooks.printLog=true"), "Pod")

    assert [annotation(pod, OUTPUT) for pod in pods] == ["hook-failed,hook-succeeded"] * 3


@every_kind
@pytest.mark.parametrize("values", ["commonAnnotations", "podAnnotations"])
def test_annotations_that_argo_cd_obeys_instead_of_helms_are_on_no_hook(helm: Path, kind: str, values: str) -> None:
    # A sync wave overrides the weight of a hook, so the replace hook would run beside preflight. If a hook has one of
    # the other two annotations, Argo CD ignores Helm's annotations.
    keys = {f"argocd.argoproj.io/{key}" for key in ("hook", "hook-delete-policy", "sync-wave")}
    harmless = "argocd.argoproj.io/sync-options"
    given = [f"{values}.{key.replace('.', chr(92) + '.')}=mine" for key in (*keys, harmless)]

    found = everything(helm, kind, *given)

    annotations = [one["metadata"].get("annotations", {}) for one in found]
    of_hooks = [each for each in annotations if HOOK in each]
    assert [each for each in of_hooks if keys & {*each}] == []
    assert sum(harmless in each for each in of_hooks) >= 2
    others = [each for each in annotations if HOOK not in each]
    assert [each for each in others if values == "commonAnnotations" and not keys < {*each}] == []
