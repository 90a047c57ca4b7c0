"""Run the command `install`: check the job, then install it as a new release."""

from __future__ import annotations

import argparse

from distrain.commands.creation import create
from distrain.commands.request import Request


def run(options: argparse.Namespace) -> int:
    return create(Request(options))
