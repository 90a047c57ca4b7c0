"""Run `doctor` once, and read its output."""

from __future__ import annotations

from collections.abc import Callable

from tests.plugin.objects import Object

LISTS = ("/apis/apps/v1/deployments", "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/namespaces", "/api/v1/nodes")
Doctor = Callable[..., "Examination"]


class Examination:
    """The output of one run of `doctor -o json`."""

    def __init__(self, code: int, answer: Object) -> None:
        self.code = code
        self.answer = answer

    def __getitem__(self, name: str) -> Object:
        (found,) = [finding for finding in self.answer["findings"] if finding["name"] == name]
        return dict(found)

    def says(self, name: str) -> tuple[str, str]:
        return self[name]["state"], self[name]["found"]
