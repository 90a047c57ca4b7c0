"""Serve a cluster's objects as an API server does, for all kinds that a check reads."""

from __future__ import annotations

from distrain.apiserver import paths
from distrain.check.snapshot.judged_kinds import JUDGED
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object


def serve(api: FakeApi, items: list[Object]) -> None:
    """Make the fake API serve these objects instead of its former objects.

    Each object must have the field `kind`.
    """
    api.answers.clear()
    api.answers["/version"] = {"gitVersion": "v1.34.4"}
    namespaces = {item["metadata"].get("namespace", "") for item in items} | {"team"}
    for kind in JUDGED:
        # In a list, the API server leaves out the field `kind` of each item.
        bare: dict[str, list[Object]] = {key: [] for key in ("", *namespaces)}
        for item in items:
            if item["kind"] == kind.name:
                found = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
                for where in {"", item["metadata"].get("namespace", "")}:
                    bare[where].append(found)
        for namespace in namespaces if kind.is_namespaced else [""]:
            api.answers[kind.path(namespace)] = bare[namespace]
        api.answers[kind.path()] = bare[""]
    api.answers |= {paths.namespace(item["metadata"]["name"]): item for item in items if item["kind"] == "Namespace"}
