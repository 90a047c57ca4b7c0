"""Run the command `logs`: print, follow or save what the pods of a run have written."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING

from distrain import console
from distrain.errors import (
    DistrainError,
    ForbiddenError,
    GoneError,
    NoLogError,
    StoppedError,
    UnreachableError,
    ValuesError,
)
from distrain.request.request import Request, import_msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distrain import kube
    from distrain.apiserver.cluster import Cluster
    from distrain.logs.pods import Look
    from distrain.logs.reader import Reader, Wanted
    from distrain.status.sources import Source, Unread

# The next step if --previous finds no log.
PREVIOUS = (
    "leave out --previous: if the program was started again in the same container, the lines before that are in the "
    "container's present log"
)


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    import_msgspec()
    try:
        return Logs(options).run()
    except KeyboardInterrupt:
        # The command changes nothing, and users end --follow with Ctrl-C.
        return StoppedError.exit_code


class Logs:
    """The logs of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        from distrain.logs.printer import Printer

        self._options, self._name = options, options.name
        self._request = Request(options)
        self._cluster: Cluster = self._request.cluster
        self._printer = Printer(timestamps=options.timestamps)

    def run(self) -> int:
        from distrain.logs.pods import look, missing, started
        from distrain.status.absence import absence, is_being_replaced
        from distrain.status.sources import Lists, Selection, Unread

        source = Lists(self._cluster, self._cluster.target.namespace, Selection(self._name))
        found = look(source, unread := Unread(), self._cluster.target.helm_flags)
        if not found.objects and not (self._options.follow and is_being_replaced(self._cluster, self._name)):
            raise ValuesError(absence(self._cluster, self._name))
        self._tell_unread(source, unread)
        if self._options.save:
            return self._save(found)
        if found.has_ended and missing(found) and not (self._options.all and started(found.pods)):
            raise GoneError(f"{self._name}: {self._none(found)}")
        self._tell_gone(found)
        return self._follow(found) if self._options.follow else self._once(found)

    def _tell_unread(self, source: Source, unread: Unread) -> None:
        """Say which kinds of jobs the user may not list, because the run may be of one of these kinds.

        Raise ForbiddenError if the user may not list pods, except with --save.
        """
        from distrain.status.sources import Unread
        from distrain.workload.wording import counted

        source.pods(of_pods := Unread())
        if of_pods and not self._options.save:
            raise ForbiddenError(*of_pods)
        kinds = [words for words in unread if words not in of_pods]
        more = f" (and {counted(len(kinds) - 1, 'more kind')})" if len(kinds) > 1 else ""
        for words in kinds[:1]:
            console.say(f"not read: {words}{more}")

    def _tell_gone(self, found: Look) -> None:
        """Say if the log that is printed may be another worker's, because the pod with the main log is gone."""
        from distrain.logs.pods import workers_gone

        if not self._options.all and (gone := workers_gone(found)):
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            words = f"has ended, and no log of {gone[0]}{more} is left, so this is the log of another worker"
            console.say(f"{self._name}: {words}; {self._known()}")

    def _known(self) -> str:
        """Return where the user finds what is known of a run whose main log is gone."""
        status = f"`helm distrain status {self._name} {self._cluster.target.helm_flags}`"
        return f"{status} shows what is known of the run, and {self._output()}"

    def _output(self) -> str:
        """Return a hint for a run without logs: its output, if any, is in output.uri, a value of the release."""
        from distrain.redact import redact

        target, uri = self._cluster.target, None
        with suppress(DistrainError):
            values = self._request.helm.releases.all_values(self._name, target)
            uri = (values.get("output") or {}).get("uri")
        return (
            f"any output of the run is in output.uri: {redact(str(uri))}"
            if uri
            else "any output of the run is in output.uri, if that is set"
        )

    def _save(self, found: Look) -> int:
        from distrain.logs.folder import Folder
        from distrain.logs.save import Saving
        from distrain.workload.wording import listed

        folder = Folder(self._options.save)
        saved = Saving(self._cluster, self._name, found, folder).save()
        for words in saved.unread:
            console.say(f"not read: {words}")
        console.say(f"wrote {folder.path}: {listed(saved.found)}")
        return 0

    def _once(self, found: Look) -> int:
        from distrain.logs.once import in_order
        from distrain.logs.pods import missing, started, title
        from distrain.logs.rank0 import rank0

        speaker = None if self._options.all else rank0(self._cluster, found)
        pods = started(found.pods) if self._options.all else [speaker] if speaker else []
        titles = {pod.metadata.name: title(pod) for pod in pods}
        errors: list[UnreachableError] = []
        has_read = False
        for reader, block in in_order([self._reader(pod) for pod in pods]):
            if isinstance(block, UnreachableError):
                errors.append(block)
                continue
            has_read = True
            self._printer.print(block, titles[reader.place.pod] if self._options.all else "")
        if missing(found) and not has_read and not errors:
            raise GoneError(f"{self._name}: {self._none(found)}")
        return self._ended(errors, has_read=has_read)

    def _none(self, found: Look) -> str:
        """Return why there is no log to print, and the next step."""
        from distrain.logs.pods import main_role, missing, started
        from distrain.workload.live_job import live_job
        from distrain.workload.suspension import is_suspended

        if found.has_ended or is_suspended(live_job(found.objects)):
            state = "has ended" if found.has_ended else "is suspended"
            return f"{state}, and no log of its {main_role(found)} is left; {self._known()}"
        words = missing(found)
        if started(found.pods) and not self._options.all:
            return f"{words}; --all prints the logs of the other pods, and --follow waits for the run's main log"
        return f"{words}; add --follow to wait for a pod"

    def _ended(self, errors: Sequence[UnreachableError], *, has_read: bool) -> int:
        """Print which logs could not be read. Raise an error if no log could be read."""
        if not errors:
            return 0
        more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
        words = f"{errors[0].messages[0]}{more}"
        if not has_read and all(isinstance(error, NoLogError) for error in errors):
            step = PREVIOUS if self._options.previous else "add --follow to wait for it"
            raise GoneError(f"{self._name}: there is no such log: {words}; {step}")
        if not has_read:
            raise type(errors[0])(words)
        console.say(words)
        return 0

    def _reader(self, pod: kube.Pod) -> Reader:
        from distrain.logs.reader import Place, Reader
        from distrain.progress.start import main_container

        place = Place(pod.metadata.namespace, pod.metadata.name, main_container(pod))
        return Reader(self._cluster, place, self._wanted, console.say)

    @property
    def _wanted(self) -> Wanted:
        from distrain.logs.reader import Wanted

        flags = self._options
        since = None if flags.since is None else max(1, round(flags.since))
        return Wanted(since, flags.tail, flags.previous)

    def _follow(self, found: Look) -> int:
        from distrain.logs.follow import Following
        from distrain.logs.pods import missing, started

        if (words := missing(found)) and not (self._options.all and started(found.pods)):
            console.say(f"{self._name}: {words}; waiting")
        is_all = self._options.all
        following = Following(self._cluster, self._name, self._wanted, is_all=is_all, tell=console.say)
        for title, block in following.lines():
            self._printer.print(block, title if is_all else "")
        return 0


def _refuse_contradictions(options: argparse.Namespace) -> None:
    if options.follow and options.previous:
        raise ValuesError(
            "--previous: shows a container that has ended, so --follow has nothing to wait for; leave out one "
            "of the two flags"
        )
    if options.save:
        parts = {"--follow": options.follow, "--previous": options.previous, "--since": options.since is not None}
        parts |= {"--tail": options.tail is not None, "--timestamps": options.timestamps}
        for flag in (flag for flag, is_given in parts.items() if is_given):
            raise ValuesError(f"{flag}: --save always writes whole logs with times; leave out one of the two flags")
