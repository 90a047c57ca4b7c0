"""Merge values and render the chart with Helm, so that the job that is checked is the job that Helm would install.

A command spends most of its time waiting for Helm. So Helm processes that do not need each other run at the same time,
and pyhelm3, whose import takes longer than a rendering, is imported where it is used.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain.errors import HelmError, ValuesError
from distrain.helm.program import OLDEST, Runs, Source, executable, refuse_old, version_of

if TYPE_CHECKING:
    import semver

    from distrain.apiserver.cluster import Capabilities
    from distrain.helm.releases import Releases

# A cluster has this API and `helm template` alone does not claim it: the chart tells the two apart by it.
REAL_CLUSTER = "apiregistration.k8s.io/v1"
SCHEMA = "values.schema.json"
# Prints the values of a chart that consists of it, those of two files beside it, and whether this Helm is recent.
VALUES_TEMPLATE = """\
{{- $isRecent := semverCompare ">=OLDEST-0" .Capabilities.HelmVersion.Version }}
{{- $defaults := .Files.Get "defaults.yaml" | fromYaml }}
{{- $given := .Files.Get "given.yaml" | fromYaml }}
{{ toJson (dict "isRecent" $isRecent "values" .Values "defaults" $defaults "given" $given) }}
""".replace("OLDEST", OLDEST)


class Values(NamedTuple):
    """Values as Helm merges them: all of them, what flags and files say, what the files say, and the chart's own."""

    merged: dict[str, Any]
    given: dict[str, Any]
    files: dict[str, Any]
    defaults: dict[str, Any]


class _ValuesRun:
    """Values on their way. Helm has no command that prints them: a chart of the defaults and one template does it.

    What the flags alone say, if they are more than a file, is told by another chart, without the defaults.
    """

    def __init__(self, helm: str, source: Source) -> None:
        self._helm, self._source = helm, source
        self._folder = tempfile.TemporaryDirectory(prefix="distrain-")
        full = _values_chart(Path(self._folder.name, "full"), source.chart, "values.yaml", SCHEMA)
        commands = [_printing(full, source.flags)]
        only = _only_file(source)
        if only is None:
            bare = _values_chart(Path(self._folder.name, "bare"), source.chart)
            commands += [_printing(bare, source.flags), _printing(bare, _files(source))]
        else:
            # Nothing is to be merged: the same run reads it.
            (full / "given.yaml").write_bytes(only)
        self._runs = Runs(helm, commands, source.stdin)

    def values(self) -> Values:
        """Wait for the values; raises ValuesError where Helm cannot read them or the chart's schema refuses them."""
        try:
            with self._folder:
                outputs = self._runs.outputs()
        except HelmError as error:
            raise self._refusal(error) from error
        full, *bare = (_parsed(self._helm, output) for output in outputs)
        given, files = (each["values"] for each in bare) if bare else (full["given"], full["given"])
        return Values(full["values"], given, files, full["defaults"])

    def _refusal(self, error: HelmError) -> ValuesError:
        """Say what is wrong: Helm's own words for the schema's rules are pointers and patterns."""
        from distrain.values.schema import check

        source = self._source
        try:
            with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
                full = _values_chart(Path(folder, "full"), source.chart, "values.yaml")
                [output] = Runs(self._helm, [_printing(full, source.flags)], source.stdin).outputs()
            check(_parsed(self._helm, output)["values"], source.chart)
        except ValuesError as refusal:
            return refusal
        except HelmError as unreadable:
            error = unreadable
        if not str(error):
            # No Helm fails without a word.
            refuse_old(self._helm)
        return ValuesError(f"values: {error}; correct the file or the flag")


class Rendering:
    """A manifest on its way: there is time for something else."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def manifest(self) -> str:
        """Wait for the manifest; raises ValuesError where the chart refuses the values, HelmError where Helm fails."""
        [manifest] = self._runs.outputs()
        return manifest


class Helm:
    """One Helm program."""

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._begun: dict[Source, _ValuesRun] = {}
        self._values: dict[Source, Values] = {}

    def begin_values(self, source: Source) -> None:
        """Begin what `values` returns for this source, to be waited for only there."""
        self._begun[source] = _ValuesRun(self._executable, source)

    def values(self, source: Source) -> Values:
        """Return the values in all their parts, without a cluster; raises ValuesError where the schema refuses them."""
        if source not in self._values:
            run = self._begun.pop(source, None) or _ValuesRun(self._executable, source)
            self._values[source] = run.values()
        return self._values[source]

    def merged_values(self, source: Source) -> dict[str, Any]:
        """Return the values as the chart's templates would see them; raises ValuesError as `values` does."""
        return self.values(source).merged

    def given_values(self, source: Source) -> dict[str, Any]:
        """Return what the flags alone say, merged as Helm merges them, without the chart's defaults."""
        return self.values(source).given

    def render(
        self,
        name: str,
        source: Source,
        namespace: str,
        capabilities: Capabilities | None,
        *,
        has_valid_values: bool = False,
        has_test: bool = True,
    ) -> Rendering:
        """Begin the manifest for a cluster of these capabilities, or for none; needs no permission in it.

        `has_valid_values`: the schema has accepted them before, and a third of the time is saved. A fifth of the rest
        is saved without the job of `helm test`, which none of the judged pods belongs to.
        """
        command = ["template", name, str(source.chart), "--namespace", namespace, *source.flags]
        if not has_test:
            command += ["--set", "test.enabled=false"]
        if has_valid_values:
            command.append("--skip-schema-validation")
        if capabilities:
            apis = [word for api in (REAL_CLUSTER, *capabilities.apis) for word in ("--api-versions", api)]
            command += ["--kube-version", capabilities.version, *apis]
        return Rendering(Runs(self._executable, [command], source.stdin))

    @cached_property
    def releases(self) -> Releases:
        """What changes and reads releases."""
        # Late: rendering does without pyhelm3.
        from distrain.helm.releases import Releases

        return Releases(self._executable)


def find() -> Helm:
    """Return the Helm that runs us, else the one on the PATH; raises HelmError when it is missing.

    One that is too old is told when it first prints values.
    """
    return Helm(executable())


def version() -> semver.Version:
    """Return the version of the Helm that `find` returns; raises HelmError when there is none."""
    return version_of(executable())


def _files(source: Source) -> tuple[str, ...]:
    pairs = zip(source.flags[::2], source.flags[1::2], strict=True)
    return tuple(word for pair in pairs if pair[0] == "--values" for word in pair)


def _only_file(source: Source) -> bytes | None:
    """Return what the one file holds that is all there is to the values, if it is so."""
    if not source.flags:
        return b""
    name = source.flags[1] if len(source.flags) == 2 and source.flags[0] == "--values" else ""
    if name == "-":
        return source.stdin
    return Path(name).read_bytes() if name and Path(name).is_file() else None


def _values_chart(folder: Path, chart: Path, *names: str) -> Path:
    """Write a chart that prints its values, with these files of another; its defaults are a plain file in it too."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: values\nversion: 0.0.0\n")
    (folder / "templates" / "values.yaml").write_text(VALUES_TEMPLATE)
    for name in filter(lambda name: (chart / name).is_file(), names):
        shutil.copyfile(chart / name, folder / name)
        if name == "values.yaml":
            shutil.copyfile(chart / name, folder / "defaults.yaml")
    return folder


def _printing(chart: Path, flags: Sequence[str]) -> list[str]:
    return ["template", "values", str(chart), *flags]


def _parsed(helm: str, output: str) -> Any:
    """Return what a chart of _values_chart printed; raises HelmError when the Helm is too old."""
    found = json.loads(next((line for line in output.splitlines() if line.startswith("{")), "{}"))
    if not found.get("isRecent"):
        refuse_old(helm)
    return found
