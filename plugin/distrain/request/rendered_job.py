"""Handle a rendered job: check whether it fits the cluster, refuse it if it does not, and follow its start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain import console
from distrain.errors import DoesNotFitError, ValuesError
from distrain.verdict import Verdict

if TYPE_CHECKING:
    from distrain.check.report import Report
    from distrain.kube import Pod
    from distrain.progress.wait import Followed
    from distrain.release.plan import Next
    from distrain.release.transaction import Release, Tools
    from distrain.request.request import Request
    from distrain.workload.manifest import Job

MAY_WAIT = (Verdict.DEPENDS, Verdict.BUSY)


class RenderedJob(NamedTuple):
    """The job of a release, which was rendered for the release's cluster.

    `values` are the values merged with the chart's defaults.
    """

    request: Request
    release: Release
    manifest: str
    job: Job
    values: dict[str, Any]

    @property
    def next(self) -> Next:
        """Return the release as it is after an upgrade to this job."""
        from distrain.release.plan import Next

        return Next(self.manifest, self.job, self.values)

    @property
    def gpu_resource(self) -> str:
        return self.value("workers", "gpuResource")

    @property
    def checks_itself(self) -> bool:
        """Tell whether the chart's preflight check is enabled.

        That check would repeat the plugin's check, and it would refuse jobs that --allow-busy admits.
        """
        return bool((self.values.get("preflight") or {}).get("enabled"))

    @property
    def runs_hooks(self) -> bool:
        """Tell whether Helm runs the chart's hooks when the release is changed."""
        return not (self.checks_itself or self.request.options.no_hooks)

    @property
    def is_queued(self) -> bool:
        """Tell whether a gang scheduler or Kueue holds the job's pods back until all of them fit."""
        return bool((self.values.get("gang") or {}).get("scheduler", "none") != "none")

    @property
    def is_suspended(self) -> bool:
        from distrain.workload.suspension import is_suspended

        return is_suspended(self.job)

    @property
    def runs_elsewhere(self) -> bool:
        """Tell whether MultiKueue runs the job in another cluster, so that this cluster needs no room for it."""
        from distrain.workload.suspension import manager

        return bool(manager(self.job))

    def refuse_waiting(self) -> None:
        """Raise ValuesError if the user wants to wait until this job has started, although it is suspended."""
        options = self.request.options
        flag = "--wait" if options.wait else "--wait-for" if options.wait_for else "--atomic" if options.atomic else ""
        if flag:
            words = f"is true, so the job has no pods, and {flag} would wait for nothing"
            raise ValuesError(f"job.suspend: {words}; leave {flag} out, or set job.suspend to false")

    def value(self, section: str, key: str) -> str:
        try:
            return str(self.values[section][key])
        except (KeyError, TypeError) as error:
            raise ValuesError(f"--chart: the chart has no value {section}.{key}; is it distrain's chart?") from error

    def report(self, running: str | None = None) -> Report:
        """Judge whether the job fits. Treat the pods of the release `running` as if they had ended."""
        from distrain.check.live_cluster import check

        return check(self.request.cluster, self.job, self.release.target.namespace, self.gpu_resource, running)

    def accept(self, report: Report) -> None:
        """Print the report; raise DoesNotFitError unless the job fits or may wait for free capacity."""
        from distrain.check.text import summary

        may_wait = report.verdict in MAY_WAIT
        waits = may_wait and (self.request.options.allow_busy or self.is_queued or self.is_suspended)
        if report.verdict != Verdict.FITS and not (waits or self.runs_elsewhere):
            hint = " To install the job anyway and let it wait, add --allow-busy." if may_wait else ""
            raise DoesNotFitError(f"{report.verdict}: {report.next}{hint}", report.verdict.exit_code)
        for line in summary(report, self.job):
            console.say(line)

    def tools(self) -> Tools:
        """Return what is needed to change a release: Helm, the cluster, the signals, and functions that print.

        From now on, SIGINT and SIGTERM do not stop the program; they are only recorded.
        """
        from distrain.release.transaction import Interrupts, Tools

        notes = f"`helm get notes {self.release.name} {self.release.target.helm_flags}` shows them"
        stays = f"{self.release.name}: Helm has made the change; only its notes cannot be printed; {notes}"
        options = self.request.options
        # With --output json or yaml, stdout gets only the plan.
        has_plan = getattr(options, "output", "text") != "text"
        tell = console.say_text if has_plan else partial(console.tell, otherwise=stays)
        return Tools(self.request.helm.releases, self.request.cluster, Interrupts(), console.say, tell, options.atomic)

    def followed(self, pods: Sequence[Pod] = (), *, is_resized: bool = False) -> Followed | None:
        """Return the job that --wait, --wait-for or --atomic follows, or None without these flags.

        `pods` are the pods of the release before an upgrade. `is_resized` means that the upgrade keeps these pods and
        changes the number of workers.
        """
        from distrain.progress.failures import ends_of
        from distrain.progress.first_step import Program
        from distrain.progress.wait import FIRST_STEP, SECONDS, Followed

        options = self.request.options
        if not (options.wait or options.wait_for or options.atomic):
            if options.timeout is not None:
                console.say(
                    "--timeout: limits only the chart's hooks, because without --wait nothing waits for the "
                    "job; add --wait"
                )
            return None
        return Followed(
            job=self.job,
            release=self.release.name,
            namespace=self.release.target.namespace,
            s3_secret=self.value("s3", "secretName"),
            timeout=SECONDS if options.timeout is None else options.timeout,
            waits_for=options.wait_for or FIRST_STEP,
            program=Program(not self.values.get("command"), self.job.ranks if is_resized else None),
            earlier=ends_of(pods),
        )
