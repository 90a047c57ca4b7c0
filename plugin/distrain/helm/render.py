"""Merge values and render the chart with Helm, so that the checked job is the job that Helm would install.

A command spends most of its time waiting for Helm. So independent Helm processes run in parallel. pyhelm3 is imported
only where it is used, because importing it takes longer than rendering.
"""

from __future__ import annotations

import re
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain.errors import DEEPEST, HelmError, ValuesError
from distrain.helm.chart import SCHEMA
from distrain.helm.processes import Runs, WaitingRun
from distrain.helm.program import OLDEST, Source, executable, refuse_old, version_of

if TYPE_CHECKING:
    import semver

    from distrain.apiserver.capabilities import Capabilities
    from distrain.helm.releases import Releases
    from distrain.workload.manifest import Job

# Every cluster has this API, but plain `helm template` does not list it among the cluster's APIs. The chart uses this
# API to tell a real cluster from plain `helm template`.
REAL_CLUSTER = "apiregistration.k8s.io/v1"
# Helm's message about a release name that is not allowed.
REFUSED_NAME = r'release name "(.*)": (?:invalid release name|no name provided)'
TOO_DEEP = f"values: a value is nested more than {DEEPEST} levels deep; flatten it"
# A template that prints the chart's merged values, the contents of two values files, and whether Helm is new enough. It
# prints them as base64, because Helm refuses a template's output that contains a control character, even though Helm
# accepts a value with one.
PRINTED = "printed: "
VALUES_TEMPLATE = """\
{{- $isRecent := semverCompare ">=OLDEST-0" .Capabilities.HelmVersion.Version }}
{{- $defaults := .Files.Get "defaults.yaml" | fromYaml }}
{{- $given := .Files.Get "given.yaml" | fromYaml }}
{{- $values := dict "values" .Values "defaults" $defaults "given" $given }}
PRINTED{{ toJson (merge (dict "isRecent" $isRecent "name" .Release.Name) $values) | b64enc }}
""".replace("OLDEST", OLDEST).replace("PRINTED", PRINTED)


class Template(NamedTuple):
    """The release, namespace and cluster for which the chart is rendered; without a cluster, `capabilities` is None.

    If `has_valid_values` is true, Helm does not validate the values with the chart's schema, which saves a third of the
    time. If `has_test` is false, the job of `helm test` is not rendered, because a check does not judge its pods; this
    saves a fifth of the remaining time. `only` contains Helm's flags that leave out parts of the manifest.
    """

    name: str
    namespace: str
    capabilities: Capabilities | None
    has_valid_values: bool = False
    has_test: bool = True
    only: Sequence[str] = ()

    def command(self, source: Source) -> tuple[str, ...]:
        """Return the arguments with which Helm renders these values."""
        words = ["template", self.name, str(source.chart), "--namespace", self.namespace, *source.flags, *self.only]
        if not self.has_test:
            words += ["--set", "test.enabled=false"]
        if self.has_valid_values:
            words.append("--skip-schema-validation")
        if self.capabilities:
            apis = [word for api in (REAL_CLUSTER, *self.capabilities.apis) for word in ("--api-versions", api)]
            words += ["--kube-version", self.capabilities.version, *apis]
        return tuple(words)


class Values(NamedTuple):
    """Four sets of values.

    `merged` are the values that Helm computes from all inputs. `given` are the values that the user's flags and files
    set, and `files` are the values that the files alone set. `defaults` are the chart's defaults.
    """

    merged: dict[str, Any]
    given: dict[str, Any]
    files: dict[str, Any]
    defaults: dict[str, Any]


class _ValuesRun:
    """Helm processes that compute the values.

    Helm has no command that prints merged values. So Helm renders a small chart, which has the defaults of the user's
    chart and one template that prints all values. A second small chart without defaults prints the values that the user
    gave. The second chart is not needed if the values are a single file.
    """

    def __init__(self, helm: str, source: Source) -> None:
        self._helm, self._source = helm, source
        self._folder = tempfile.TemporaryDirectory(prefix="distrain-")
        full = _values_chart(Path(self._folder.name, "full"), source.chart, "values.yaml", SCHEMA)
        commands = [_printing(full, source.flags)]
        only = _only_file(source)
        if only is None:
            bare = _values_chart(Path(self._folder.name, "bare"), source.chart)
            files = [word for path in source.files for word in ("--values", path)]
            commands += [_printing(bare, source.flags), _printing(bare, files)]
        else:
            # A single values file need not be merged with others. So the first Helm process reads it, and no second one
            # is started.
            (full / "given.yaml").write_bytes(only)
        self._runs = Runs(helm, commands, source.stdin)

    def values(self) -> Values:
        """Wait for the values; raise ValuesError if Helm cannot read them, or if the chart's schema refuses them.

        Also raise ValuesError if a file contains a key twice, because Helm would use the last one without a message.
        """
        # Imported while Helm runs in parallel.
        from distrain.helm.repetitions import repetitions

        repeated = repetitions(self._source)
        try:
            with self._folder:
                outputs = self._runs.outputs()
        except HelmError as error:
            from distrain.helm.objects import objects

            mistakes = [*objects(self._source)] or repeated
            raise ValuesError(*mistakes) if mistakes else self._refusal(error) from error
        if repeated:
            raise ValuesError(*repeated)
        try:
            full, *bare = [_parsed(self._helm, output) for output in outputs]
        except RecursionError as error:
            raise self._unreadable(TOO_DEEP) from error
        given, files = (each["values"] for each in bare) if bare else (full["given"], full["given"])
        return Values(full["values"], given, files, full["defaults"])

    def _refusal(self, error: HelmError) -> ValuesError:
        """Return an error in plain words. Helm's messages about the schema contain JSON pointers and patterns."""
        from distrain.values.schema import check

        source = self._source
        try:
            check(_parsed(self._helm, self._printed(source.flags, "values.yaml"))["values"], source.chart)
        except ValuesError as refusal:
            return refusal
        except RecursionError:
            return self._unreadable(TOO_DEEP)
        except HelmError as unreadable:
            error = unreadable
        if not str(error):
            # An old Helm fails without a message here, so check its version.
            refuse_old(self._helm)
        # Imported here, because such charts are rare.
        import shlex

        quoted = shlex.quote(str(source.chart))
        return self._unreadable(
            f"--chart: Helm cannot use {source.chart} with these values; `helm lint {quoted}` says why"
        )

    def _unreadable(self, words: str) -> ValuesError:
        """Return an error with one line for each flag that Helm cannot read.

        If Helm can read each flag by itself, the error's only message is `words`.
        """
        # Imported here, because flags with mistakes are rare.
        from distrain import redact
        from distrain.helm.values_mistakes import mistakes

        for text in self._source.texts():
            redact.remember_in(text)
        if (message := self._message(())) is not None:
            message = message.removeprefix("level=INFO msg=")
            return ValuesError(
                f"Helm fails even without any values: {message}; correct the settings of Helm, such as HELM_DRIVER"
            )
        return ValuesError(*(mistakes(self._source, self._message) or [words]))

    def _message(self, flags: Sequence[str]) -> str | None:
        """Return Helm's message about these flags, or None if Helm can read them."""
        try:
            self._printed(flags)
        except HelmError as error:
            return str(error)
        return None

    def _printed(self, flags: Sequence[str], *names: str) -> str:
        """Return what Helm prints for these flags.

        Helm renders a small chart, which contains the files `names` of the user's chart.
        """
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            chart = _values_chart(Path(folder, "printed"), self._source.chart, *names)
            [output] = Runs(self._helm, [_printing(chart, flags)], self._source.stdin).outputs()
        return output


class Rendering:
    """A running Helm process that renders the manifest."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    @cached_property
    def manifest(self) -> str:
        """Wait for the manifest; raise ValuesError if the chart refuses the values, HelmError if Helm fails."""
        [output] = self._runs.outputs()
        return output

    def job(self) -> Job:
        """Wait for the manifest, and read the job from it; also raise the errors of `from_manifest`."""
        # Imported while Helm runs in parallel, because this import takes about as long as Helm.
        from distrain.workload.manifest import from_manifest, prepare

        prepare()
        return from_manifest(self.manifest, "--chart")


class Helm:
    """Runs one Helm program to merge values and to render."""

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._begun: dict[Source, _ValuesRun] = {}
        self._waiting: dict[tuple[str, ...], WaitingRun] = {}
        self._values: dict[Source, Values] = {}

    def begin_values(self, source: Source) -> None:
        """Start to compute the values of this source; `values` waits for the result."""
        self._begun[source] = _ValuesRun(self._executable, source)

    def values(self, source: Source) -> Values:
        """Return the merged values, computed without a cluster; raise ValuesError if the schema refuses them."""
        if source not in self._values:
            run = self._begun.pop(source, None) or _ValuesRun(self._executable, source)
            found = run.values()
            _refuse_foreign(found.merged, source.chart)
            self._values[source] = found
        return self._values[source]

    def merged_values(self, source: Source) -> dict[str, Any]:
        """Return the values that the chart's templates see; raise ValuesError as `values` does."""
        return self.values(source).merged

    def given_values(self, source: Source) -> dict[str, Any]:
        """Return the values of the flags and files, merged as Helm merges them, without the chart's defaults."""
        return self.values(source).given

    def expect_text(self, chart: Path, template: Template) -> None:
        """Start Helm for a later `render` whose values are a single text. Helm then waits for the text."""
        command = template.command(Source(chart, ()).with_text(""))
        self._waiting[command] = WaitingRun(self._executable, command)

    def render(self, source: Source, template: Template) -> Rendering:
        """Start to render the manifest. Rendering the manifest needs no rights in the cluster."""
        command = template.command(source)
        if waiting := self._waiting.pop(command, None):
            waiting.give(source.stdin or b"")
            return Rendering(waiting)
        return Rendering(Runs(self._executable, [command], source.stdin))

    def fetched(self, url: str) -> bytes:
        """Return the content of a URL.

        Helm fetches the content with its own protocols, or with those of its plugins.
        """
        # With --set-file Helm fetches the text unchanged and does not parse it as values.
        text: str = self._printed(["values", "--set-file", f"text={_escaped(url)}"])["values"]["text"]
        return text.encode()

    def name_of(self, template: str) -> str:
        """Return the name that the template of --name-template produces, even if no release can have this name.

        Raise ValuesError if Helm cannot read the template.
        """
        try:
            return str(self._printed(["--name-template", template])["name"])
        except HelmError as error:
            if refused := re.search(REFUSED_NAME, str(error)):
                return refused[1]
            if "name-template:" in str(error):
                words = f'"{template}" is not a template that Helm can render; correct its braces and functions'
                raise ValuesError(f"--name-template: {words}") from error
            raise

    def _printed(self, words: Sequence[str]) -> Any:
        """Return Helm's output for these arguments and a chart without values."""
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            bare = _values_chart(Path(folder, "bare"), Path(folder))
            [output] = Runs(self._executable, [["template", *words, str(bare)]], None).outputs()
        return _parsed(self._executable, output)

    @cached_property
    def releases(self) -> Releases:
        """Return the object that reads and changes releases with the same Helm program."""
        # Imported here, because rendering does not need pyhelm3.
        from distrain.helm.releases import Releases

        return Releases(self._executable)


def find() -> Helm:
    """Return the Helm program that runs the plugin, otherwise the one on PATH; raise HelmError if there is none.

    Helm's version is not checked here. If Helm is too old, this is noticed when it first prints values.
    """
    return Helm(executable())


def version() -> semver.Version:
    """Return the version of the Helm program that `find` returns; raise HelmError if there is none."""
    return version_of(executable())


def _refuse_foreign(values: dict[str, Any], chart: Path) -> None:
    """Raise ValuesError if the chart is not distrain's: another chart lacks the values that all commands read."""
    for name in ("job", "workers"):
        if not isinstance(values.get(name), dict):
            raise ValuesError(f"--chart: {chart} has no values below {name}; is it distrain's chart?")


def _only_file(source: Source) -> bytes | None:
    """If the user gave one values file and no other flags, return the content of the file.

    If the user gave no flags at all, return empty content. In all other cases, return None.
    """
    if not source.flags:
        return b""
    name = source.flags[1] if len(source.flags) == 2 and source.flags[0] == "--values" else ""
    if name == "-":
        return source.stdin
    return Path(name).read_bytes() if name and Path(name).is_file() else None


def _values_chart(folder: Path, chart: Path, *names: str) -> Path:
    """Write a chart that prints its values. The new chart contains copies of the files `names` of `chart`.

    A values.yaml among them is copied a second time as a plain file, defaults.yaml.
    """
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: values\nversion: 0.0.0\n")
    (folder / "templates" / "values.yaml").write_text(VALUES_TEMPLATE)
    for name in filter(lambda name: (chart / name).is_file(), names):
        content = (chart / name).read_bytes()
        (folder / name).write_bytes(content)
        if name == "values.yaml":
            (folder / "defaults.yaml").write_bytes(content)
    return folder


def _escaped(text: str) -> str:
    """Escape a text so that it can be passed to Helm's --set-file."""
    return text.replace("\\", "\\\\").replace(",", "\\,")


def _printing(chart: Path, flags: Sequence[str]) -> list[str]:
    return ["template", "values", str(chart), *flags]


def _parsed(helm: str, output: str) -> Any:
    """Parse the output of a chart that `_values_chart` has written; raise HelmError if Helm is too old.

    Raise RecursionError if a value is nested more than DEEPEST levels deep.
    """
    import json

    printed = next((line for line in output.split("\n") if line.startswith(PRINTED)), None)
    found = json.loads(b64decode(printed.removeprefix(PRINTED))) if printed else {}
    if not found.get("isRecent"):
        refuse_old(helm)
    level = [found]
    for _ in range(DEEPEST):
        level = [part for each in level for part in _parts(each)]
    if level:
        raise RecursionError
    return found


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
