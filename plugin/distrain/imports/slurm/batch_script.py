"""Read a batch script of Slurm: its #SBATCH lines (sbatch(1)), and the line that starts the ranks (`script`)."""

from __future__ import annotations

import re
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.jobs.job_resource import release_name
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.launch.known_values import with_values
from distrain.imports.ledger import Ledger
from distrain.imports.slurm.container import carry_image, without_image
from distrain.imports.slurm.header import HETEROGENEOUS, entries, ignored, shown
from distrain.imports.slurm.replaced import INSTEAD, carry_exported
from distrain.imports.slurm.script import carry_script
from distrain.imports.slurm.size import carry_size

TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
# Names that occur in scripts for PyTorch, and variables with which PyTorch's ranks find each other.
TORCH = re.compile(
    r"torch|lightning|accelerate|deepspeed|megatron|\bnemo\b|MASTER_ADDR|env://|dist[-_]url|dist[-_]backend",
    re.IGNORECASE,
)
UNLIMITED = {"UNLIMITED", "INFINITE"}


def is_batch_script(text: str) -> bool:
    return text.startswith("#!") and bool(re.search(r"^#SBATCH[ \t]", text, re.MULTILINE))


def options_of(text: str, origin: str) -> dict[str, Any]:
    """Return the options of the #SBATCH lines, and the script's text under the key "script".

    Raise ValuesError for a job array.
    """
    found = {entry.name: entry for entry in entries(text, origin)}
    if "array" in found:
        line = found["array"].line
        raise ValuesError(
            f"{origin}: line {line}: #SBATCH --array: makes many jobs of one script; import a script of one job"
        )
    if several := next((found[name] for name in HETEROGENEOUS if name in found), None):
        words = f"line {several.line}: #SBATCH {several.name}: makes several groups of nodes"
        raise ValuesError(f"{origin}: {words}; import a script with one group")
    return {**{name: entry.value for name, entry in found.items()}, "script": text}


def read_slurm(data: dict[str, Any], origin: str) -> Draft:
    """Convert a batch script to values of the chart; raise ValuesError if an amount is invalid."""
    ledger = Ledger(data)
    draft = Draft(ledger, release_name(ledger.get(("job-name",), "run1")), origin=origin)
    draft.credentials.secret = f"{draft.name}-credentials"
    draft.know(("job-name",), ("script",))
    script = with_values(str(data["script"]))
    _kind(draft, script)
    carry_size(draft)
    _image(draft, script)
    carry_script(draft, script)
    without_image(draft)
    for place in ignored(script):
        draft.drop(place, "sbatch reads no options after the first command")
    _time(draft)
    carry_exported(draft, str(ledger.get(("export",), "")), "export")
    draft.know(("export",))
    _left_out(draft, script)
    draft.choose(("podSecurity",), "baseline", "images of others mostly run as root")
    return draft


def _left_out(draft: Draft, script: str) -> None:
    """Report options as not imported if the chart has no value for them, or if a later line overrides them."""
    found = entries(script, draft.origin)
    last = {entry.name: entry for entry in found}
    for entry in found:
        if entry is not last[entry.name]:
            why = f"line {last[entry.name].line} sets it again, and the last counts"
            draft.drop(f"line {entry.line}: {shown(entry.name, entry.value)}", why)
        elif not draft.ledger.is_settled((entry.name,)):
            draft.drop(shown(entry.name, entry.value), INSTEAD.get(entry.name, NO_VALUE))
            draft.know((entry.name,))


def _kind(draft: Draft, script: str) -> None:
    is_mpi = bool(re.search(r"\b(mpirun|mpiexec|horovodrun)\b|horovod", script))
    word = TORCH.search(script) or re.search("mxnet|tensorflow|keras", script)
    named = word[0] if word else ""
    framework = "pytorch" if TORCH.fullmatch(named) else "mxnet" if named == "mxnet" else "tensorflow"
    draft.choose(("framework",), framework, f'"{named}" in the script' if named else "nothing names the framework")
    if framework == "pytorch" and is_mpi:
        draft.choose(("job", "kind"), "MPIJob", "mpirun starts the ranks")
    elif framework == "pytorch":
        draft.choose(("job", "elastic"), False, "the number of nodes is fixed")


def _time(draft: Draft) -> None:
    """Set the time limit of the run. A script without a time limit becomes a run without one."""
    limit = str(draft.ledger.get(("time",), ""))
    if seconds := _seconds(limit):
        draft.carry(("job", "activeDeadlineSeconds"), seconds, ("time",), why=limit)
    elif limit.upper() in UNLIMITED or TIME.fullmatch(limit):
        draft.drop(shown("time", limit), "a run has no time limit unless job.activeDeadlineSeconds sets one")
        draft.know(("time",))


def _seconds(text: str) -> int:
    """Return the seconds of a time limit: minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s."""
    found = TIME.fullmatch(text)
    if not found:
        return 0
    days, *parts = [int(part) if part is not None else None for part in found.groups()]
    numbers = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    seconds = 0
    for number in numbers:
        seconds = seconds * 60 + number
    return seconds


def _image(draft: Draft, script: str) -> None:
    """Set the image that pyxis names as registry#image:tag."""
    option = str(draft.ledger.get(("container-image",), ""))
    if name := option or _of_srun(script):
        carry_image(draft, name, "container-image")
        draft.know(("container-image",))


def _of_srun(script: str) -> str:
    found = re.search(r"--container-image[= ]\"?([^\s\"]+)", script)
    return found[1] if found else ""
