"""Plan a change from two sets of values files, without a cluster, for `upgrade --dry-run --from`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from distrain import console
from distrain.apiserver.target import namespace_alone
from distrain.changes.plan_text import told
from distrain.derive.complete import is_unspread
from distrain.errors import ValuesError
from distrain.helm import inputs
from distrain.helm.program import Source
from distrain.helm.render import Template
from distrain.progress.steps import Training
from distrain.release.plan import Before, Next, plan, refuse_traps
from distrain.request.request import Request, refuse_disabled

# Both flags use the values of the installed release, which are unknown without a cluster.
REUSING = ("reuse_values", "reset_then_reuse_values")


def plan_offline(request: Request) -> int:
    """Print how a run changes if it is upgraded from the values of --from to the given values.

    Refuse what `upgrade` would refuse.
    """
    options = request.options
    _refuse_contradictions(options)
    old, new = _before(request), _rendered(request, request.source)
    before = Before(
        revision=0,
        manifest=old.manifest,
        job=old.job,
        values=old.values,
        end=None,
        is_there=True,
        helm_flags="",
        owner="the tool that applies it",
        is_read=False,
    )
    planned = plan(options.name, before, new)
    if planned.ends_pods:
        # Only the log of a pod in the cluster shows how many steps would be lost.
        planned = replace(planned, lost=Training(None, None))
    console.answer(told(request, planned, before, new))
    refuse_traps(planned, before)
    return 0


def _refuse_contradictions(options: Any) -> None:
    if options.dry_run != "client":
        words = "works only with --dry-run, because it shows a plan without using the cluster"
        raise ValuesError(f"--from: {words}; add --dry-run")
    if any(getattr(options, flag) for flag in REUSING):
        words = "leave out --reuse-values and --reset-then-reuse-values"
        raise ValuesError(f"--from: already gives the values before the change; {words}")
    if not options.value_flags:
        raise ValuesError("--from: gives only the values before the change; give the values after the change with -f")
    if "-" in options.values_before and ("--values", "-") in options.value_flags:
        raise ValuesError("--from: -f already reads stdin; name a file for one of the two flags")


def _before(request: Request) -> Next:
    given = [("--values", file) for file in request.options.values_before]
    try:
        source = inputs.source(request.source.chart, given, lambda url: request.helm.fetched(url))
        return _rendered(request, source)
    except ValuesError as error:
        raise ValuesError(*(f"--from: {message}" for message in error.messages)) from error


def _rendered(request: Request, source: Source) -> Next:
    """Render the release without a cluster, with the newest API version of its kind, as `template --offline` does.

    `derive` does not complete the values, because the tool that applies the files does not run `derive` either.
    """
    values = request.merged_values(source)
    refuse_disabled(values)
    if is_unspread(request.helm.given_values(source)):
        words = "the total cannot be divided among workers, because --from does not look up the GPUs per node"
        step = "set workers.replicas and workers.gpus to the numbers that `helm distrain derive` prints"
        raise ValuesError(f"gpus: {words}; {step}")
    template = Template(request.options.name, namespace_alone(request.options.namespace), None, has_valid_values=True)
    rendering = request.helm.render(source, template)
    return Next(rendering.manifest, rendering.job(), values)
