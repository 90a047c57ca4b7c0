"""Run the command `rescale`: an upgrade that changes only the size."""

from __future__ import annotations

import argparse

from distrain import console
from distrain.commands.request import place_of
from distrain.commands.upgrade import change, chart_version, refuse_without_answer, source_with
from distrain.commands.values_flags import source_of
from distrain.helm.render import find
from distrain.release.current import read
from distrain.release.size import with_gpus, with_workers


def run(options: argparse.Namespace) -> int:
    source, helm = source_of(options), find()
    refuse_without_answer(options)
    place = place_of(options, helm)
    current = read(helm.releases, place.cluster, options.name, place.target)
    there, here = current.revision.chart_version, chart_version(source)
    if there != here:
        words = f"{options.name} is of chart {there} and gets chart {here}, with all that has changed in it"
        console.say(f"warning: {words}; --chart names another folder")
    full = helm.releases.all_values(options.name, place.target)
    own = current.revision.values
    values = with_gpus(own, full, options.gpus) if options.gpus else with_workers(own, full, options.workers)
    return change(options, place, current, source_with(source, values))
