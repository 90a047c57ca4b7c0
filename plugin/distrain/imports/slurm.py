"""Read a batch script of Slurm: its #SBATCH lines (sbatch(1)), and the line that starts the ranks (`slurm_script`)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.jobs.image import set_image
from distrain.imports.jobs.job_resource import release_name
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.ledger import Ledger
from distrain.imports.secrets import quoting
from distrain.imports.slurm_options import INSTEAD, carry_exported
from distrain.imports.slurm_script import carry_script
from distrain.values.placeholder import IMAGE

HEADER = re.compile(r"^#SBATCH[ \t]+(.*?)(?:[ \t]#.*)?$", re.MULTILINE)
SHORT = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "t": "time",
    "p": "partition",
    "J": "job-name",
    "G": "gpus",
    "o": "output",
    "e": "error",
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "a": "array",
    "q": "qos",
    "w": "nodelist",
    "x": "exclude",
    "d": "dependency",
    "H": "hold",
    "M": "clusters",
    "i": "input",
}
ALONE = {"exclusive", "requeue", "no-requeue", "hold", "H", "overcommit", "contiguous", "spread-job", "wait"}
UNITS = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}
MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
# Names that occur in scripts for PyTorch, and the variables of PyTorch's rendezvous.
TORCH = re.compile(
    r"torch|lightning|accelerate|deepspeed|MASTER_ADDR|env://|dist[-_]url|dist[-_]backend", re.IGNORECASE
)
HETEROGENEOUS = {"hetjob", "packjob"}
# The place of a word that is neither an option nor its value.
WORDS = "other-words"


def is_batch_script(text: str) -> bool:
    return text.startswith("#!") and bool(HEADER.search(text))


def options_of(text: str, origin: str) -> dict[str, Any]:
    """Return the options of the #SBATCH lines and, as "script", the rest; raise ValuesError for a job array."""
    found: dict[str, Any] = {}
    for line in HEADER.findall(_header(text)):
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ValuesError(
                f"{origin}: #SBATCH {quoting.options(line)}: has a quote that is not closed; close it"
            ) from error
        found |= dict(_options(words))
    if "array" in found:
        raise ValuesError(f"{origin}: #SBATCH --array: makes many jobs of one script; import a script of one job")
    if HETEROGENEOUS & set(found):
        raise ValuesError(f"{origin}: #SBATCH hetjob: makes several groups of nodes; import a script with one group")
    return {**found, "script": text}


def _header(script: str) -> str:
    """Return the comments before the first command: sbatch reads no options after it."""
    lines = script.split("\n")
    is_comment = [not line.strip() or line.lstrip().startswith("#") for line in lines]
    return "\n".join(lines[: is_comment.index(False)] if False in is_comment else lines)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(words):
        name, sign, value = words[place].partition("=")
        if not name.startswith("-"):
            yield words[place] if words[place] in HETEROGENEOUS else WORDS, "true"
            place += 1
            continue
        if not name.startswith("--") and len(name) > 2:
            name, sign, value = name[:2], "=", words[place][2:]
        plain = SHORT.get(name.lstrip("-"), name.lstrip("-"))
        if not sign and plain not in ALONE and place + 1 < len(words):
            place += 1
            value = words[place]
        yield plain, value or "true"
        place += 1


def read_slurm(data: dict[str, Any], origin: str) -> Draft:
    """Return the draft of a batch script; raise ValuesError if an amount is invalid."""
    ledger = Ledger(data)
    draft = Draft(ledger, release_name(ledger.get(("job-name",), "run1")), origin=origin)
    draft.credentials.secret = f"{draft.name}-credentials"
    draft.know(("job-name",), ("script",))
    _kind(draft, str(data["script"]))
    _size(draft, origin)
    _image(draft)
    carry_script(draft, str(data["script"]))
    for line in HEADER.findall(str(data["script"]).removeprefix(_header(str(data["script"])))):
        draft.drop(f"#SBATCH {quoting.options(line)}", "sbatch reads no options after the first command")
    if time := _seconds(str(ledger.get(("time",), ""))):
        draft.carry(("job", "activeDeadlineSeconds"), time, ("time",), why=str(ledger.get(("time",))))
    carry_exported(draft)
    for key in data:
        draft.lose((key,), INSTEAD.get(key, NO_VALUE))
    draft.choose(("podSecurity",), "baseline", "images of others mostly run as root")
    return draft


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


def _size(draft: Draft, origin: str) -> None:
    nodes = _whole(draft, "nodes", origin) or 1
    draft.carry(("workers", "replicas"), nodes, ("nodes",))
    if "-" in str(draft.ledger.get(("nodes",), "")):
        draft.note(
            f"nodes: {quoting.value(draft.ledger.get(('nodes',)))} is a range; workers.replicas is its least, {nodes}"
        )
    total, per_node = _whole(draft, "ntasks", origin) or nodes, _whole(draft, "ntasks-per-node", origin)
    tasks = per_node or max(1, total // nodes)
    is_even = bool(per_node) or total % nodes == 0
    gpus = _gpus(draft, nodes, tasks if is_even else total / nodes, origin)
    if tasks not in (1, max(1, gpus)) or not is_even:
        found = f"ntasks-per-node: {tasks} on each node" if is_even else f"ntasks: {total} on {nodes} nodes"
        draft.note(f"{found}; distrain starts {max(1, gpus)} on each, one for each GPU, or one on CPUs")
    draft.know(("ntasks-per-node",), ("ntasks",), ("nodes",))
    cpus = tasks * (_whole(draft, "cpus-per-task", origin) or 0)
    if cpus:
        draft.carry(("workers", "cpu"), cpus, ("cpus-per-task",), why=f"times {tasks}" if tasks > 1 else "")
    _memory(draft, cpus or tasks, gpus)


def _whole(draft: Draft, key: str, origin: str) -> int:
    """Return the number of an option, or the lower end of a range such as 2-4; 0 without the option."""
    found = draft.ledger.get((key,))
    if found is None:
        return 0
    number = re.match(r"\d+", str(found))
    if not number:
        raise ValuesError(f"{origin}: #SBATCH --{key}: is {quoting.value(found)}; write a whole number there")
    return int(number[0])


def _gpus(draft: Draft, nodes: int, tasks: float, origin: str) -> int:
    """Carry over the GPUs of a node from any of Slurm's options for GPUs."""
    for key, share in (("gpus-per-node", 1.0), ("gres", 1.0), ("gpus", 1 / nodes), ("gpus-per-task", tasks)):
        found = [*_gpu_counts(draft, key)]
        if not found:
            continue
        gpus = sum(number for number, _ in found) * share
        if abs(gpus - round(gpus)) > 1e-9:
            words = (
                f"is {quoting.value(draft.ledger.get((key,)))}, which is not the same number on each of {nodes} nodes"
            )
            raise ValuesError(f"{origin}: #SBATCH --{key}: {words}; ask for a multiple there")
        draft.carry(("workers", "gpus"), round(gpus), (key,))
        for _, kind in found:
            if kind:
                draft.drop(f"{key}: {quoting.value(kind)}", INSTEAD["gpu type"])
        return round(gpus)
    draft.choose(("workers", "gpus"), 0, "the script asks for no GPU")
    return 0


def _gpu_counts(draft: Draft, key: str) -> Iterator[tuple[int, str]]:
    """Yield number and type of the GPUs in a list such as gpu:a100:4,nvme:1; list other entries as left out."""
    for each in filter(None, str(draft.ledger.get((key,), "")).split(",")):
        kind, *rest = re.sub(r"\(.*?\)", "", each).split(":")
        if key == "gres" and kind.removeprefix("gres/") != "gpu":
            draft.drop(f"{key}: {quoting.value(each)}", NO_VALUE)
            continue
        parts = rest if key == "gres" else [kind, *rest]
        number = parts.pop() if parts and parts[-1].isdecimal() else "1"
        yield int(number), ":".join(parts)


def _memory(draft: Draft, cpus: int, gpus: int) -> None:
    for key, times in (("mem", 1), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        found = MEMORY.fullmatch(str(draft.ledger.get((key,), "")))
        if found and found[1] == "0":
            draft.lose((key,), "all memory of a node; set workers.memory")
        elif found and times:
            amount = f"{int(found[1]) * times}{UNITS[found[2].upper()]}"
            draft.carry(("workers", "memory"), amount, (key,), why=f"times {times}" if times > 1 else "")
            return


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


def _image(draft: Draft) -> None:
    """Carry over the image that pyxis names as registry#image:tag; otherwise use a placeholder that check refuses."""
    name = str(draft.ledger.get(("container-image",), "")) or _of_srun(str(draft.ledger.get(("script",), "")))
    if name:
        set_image(draft, name.removeprefix("docker://").replace("#", "/"), ("container-image",))
    else:
        draft.choose(("image", "repository"), IMAGE, "a Slurm job has no image")
        draft.note("image.repository: a Slurm job has no image; name one with the program, and what the modules bring")


def _of_srun(script: str) -> str:
    found = re.search(r"--container-image[= ]\"?([^\s\"]+)", script)
    return found[1] if found else ""
