"""Find variables that a command reads although nothing sets them.

A shell reports no error for such a variable, and uses an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from distrain.imports.draft import Draft
from distrain.imports.launch.shell import SHELLS
from distrain.imports.launch.starters import MENTION
from distrain.imports.secrets import quoting

# Variables that a shell or kubelet sets, and lists of folders such as PATH. Scripts extend such lists, and a list may
# be empty before.
ALWAYS = {
    *(
        "HOME",
        "PATH",
        "PWD",
        "OLDPWD",
        "HOSTNAME",
        "SHELL",
        "UID",
        "EUID",
        "PPID",
        "RANDOM",
        "SECONDS",
        "LINENO",
        "IFS",
    ),
    *("BASH_SOURCE", "BASH_VERSION", "BASHPID", "FUNCNAME", "PIPESTATUS", "OPTARG", "OPTIND", "REPLY", "SHLVL"),
    *("OSTYPE", "HOSTTYPE", "MACHTYPE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *("LD_LIBRARY_PATH", "LIBRARY_PATH", "PYTHONPATH", "CPATH", "PKG_CONFIG_PATH", "MANPATH"),
    *("DISTRAIN_GPUS", "DISTRAIN_JOB", "DISTRAIN_POD_UID"),
}
# Variables that mpirun, torchrun or srun sets in each rank.
OF_TORCHRUN = re.compile(r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)|TORCHELASTIC_\w+|PET_\w+")
OF_MPI = re.compile(r"(OMPI|PMIX|PRTE|PMI)_\w+")
OF_SERVERS = {"tensorflow": re.compile(r"TF_CONFIG"), "mxnet": re.compile(r"DMLC_\w+")}
# $NAME and ${NAME...}, but not ${NAME:-a value}, which has a default.
USED = re.compile(r"(?<!\\)\$(?:(?P<plain>[A-Za-z_]\w*)|\{[#!]?(?P<braced>[A-Za-z_]\w*)(?!\w|:?[-+=?]))")
OF_KUBERNETES = re.compile(r"\$\((?P<plain>[A-Za-z_]\w*)\)")
# Positional arguments of a script. The arguments of its functions, and $1 of awk in single quotes, do not match.
ARGUMENT = re.compile(r"(?<!\\)\$(?:[1-9@*#]|\{(?:[1-9]\d*|[@*#])\})")
FUNCTION, QUOTED = re.compile(r"\(\s*\)"), re.compile(r"'[^']*'")
OF_SLURM, GPUS = "SLURM_", "DISTRAIN_GPUS"
# For each variable of Slurm, the variables of torchrun and of Open MPI with the same value.
EQUAL = {
    "PROCID": ("RANK", "OMPI_COMM_WORLD_RANK"),
    "LOCALID": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "NODEID": ("GROUP_RANK", ""),
    **dict.fromkeys(("NTASKS", "NPROCS"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")),
    **dict.fromkeys(("NTASKS_PER_NODE", "TASKS_PER_NODE"), ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")),
    **dict.fromkeys(("GPUS_ON_NODE", "GPUS_PER_NODE"), (GPUS, GPUS)),
    **dict.fromkeys(("JOB_ID", "JOBID"), ("DISTRAIN_JOB", "DISTRAIN_JOB")),
}
OTHERS = {
    **dict.fromkeys(
        ("ARRAY_TASK_ID", "ARRAY_JOB_ID", "ARRAY_TASK_COUNT"), "a run is one job: write the number of its task"
    ),
    "JOB_NAME": "write the run's name",
    "SUBMIT_DIR": "write the folder of the program in the image",
    "TMPDIR": "write /tmp, or the path of a volume,",
    **dict.fromkeys(("CPUS_PER_TASK", "CPUS_ON_NODE"), "write the number of workers.cpu"),
    **dict.fromkeys(("NODELIST", "JOB_NODELIST"), "distrain says how the ranks find each other: write no hosts"),
}
# Finds NAME=VALUE up to the end of the value, and other commands that set a variable.
ASSIGNED = re.compile(r"""(?<![\w$-])(\w+)\+?=(?:"(?:[^"\\]|\\.)*"|'[^']*'|\$\([^)]*\)|[^\s;&|"'])*""")
SET = re.compile(r"\b(?:for|select|read(?:\s+-\w+)*|printf\s+-v|getopts\s+\S+|mapfile(?:\s+-\w+)*)\s+([A-Za-z_]\w*)")


def note_unset(draft: Draft) -> None:
    """Add a note for each variable that the command reads and nothing sets."""
    command = [str(word) for word in draft.value(("command",), [])]
    known = set_by(draft)
    names = [name for name in dict.fromkeys(_unset(command, known)) if not is_of_starter(draft, name)]
    if plain := [name for name in names if not name.startswith(OF_SLURM)]:
        found = ", ".join(map(quoting.key, plain))
        draft.note(f"{found}: nothing sets it here, and command reads it; set it in env, unless the image does")
    for name in names:
        if name.startswith(OF_SLURM):
            instead = _instead(draft, name.removeprefix(OF_SLURM))
            draft.note(f"{quoting.key(name)}: Slurm set it, and nothing does here; {instead}")
    if words := [*dict.fromkeys(_arguments(command))]:
        draft.note(f"{', '.join(words)}: no arguments follow the script here; write their values into command")


def _instead(draft: Draft, name: str) -> str:
    """Say what the user can write instead of a variable of Slurm. `name` is the variable's name without SLURM_."""
    if name in ("NNODES", "JOB_NUM_NODES"):
        return f"write {draft.value(('workers', 'replicas'), 1)} into command, the number of workers.replicas"
    is_torchrun = is_of_starter(draft, "RANK")
    equal = EQUAL.get(name, ("", ""))[0 if is_torchrun else 1]
    if equal == GPUS and not draft.value(("workers", "gpus"), 0):
        equal = ""
    if equal:
        return f"write ${equal} in its place, which each rank has"
    return f"{OTHERS.get(name, 'write its value')} into command"


def _arguments(command: Sequence[str]) -> Iterator[str]:
    """If the command ends with a script, as in `bash -c SCRIPT`, yield the script's arguments such as $1 and "$@"."""
    if command and is_script(command, len(command) - 1) and not FUNCTION.search(command[-1]):
        yield from (found[0] for found in ARGUMENT.finditer(QUOTED.sub("", command[-1])))


def note_starters(draft: Draft) -> None:
    """Add a note for each variable of the command that contains mpirun, torchrun or the like.

    distrain starts the ranks itself, so such a variable would start them a second time.
    """
    command = [str(word) for word in draft.value(("command",), [])]
    used = {name for index, word in enumerate(command) if is_script(command, index) for name in used_in(word)}
    for section in ((), ("workers",)):
        for entry in draft.value((*section, "env"), []):
            held = MENTION.search(str(entry.get("value", ""))) if isinstance(entry, dict) else None
            if held and entry.get("name") in used:
                words = (
                    f"holds {quoting.value(held[0].strip())}, and distrain starts the ranks itself; "
                    f"write the program as command"
                )
                draft.note(f"{quoting.key(entry['name'])}: it {words}")


def set_by(draft: Draft) -> set[str]:
    """Return the names of the variables that env and mpi.env set in the pods that run the command."""
    sections = ((), ("workers",))
    lists = [draft.value((*section, "env"), []) for section in sections]
    names = {str(entry.get("name")) for entries in lists for entry in entries if isinstance(entry, dict)}
    return names | {target[2] for target in draft.settings if target[:2] == ("mpi", "env") and len(target) > 2}


def is_of_starter(draft: Draft, name: str) -> bool:
    """Tell whether mpirun, torchrun or the operator sets a variable in each rank."""
    framework = str(draft.value(("framework",), ""))
    if draft.value(("strategy",)) == "parameter-server":
        return bool(OF_SERVERS[framework].fullmatch(name)) if framework in OF_SERVERS else False
    is_torchrun = framework == "pytorch" and draft.value(("job", "kind"), "PyTorchJob") == "PyTorchJob"
    return bool((OF_TORCHRUN if is_torchrun else OF_MPI).fullmatch(name))


def _unset(command: Sequence[str], known: Collection[str]) -> Iterator[str]:
    for index, word in enumerate(command):
        if is_script(command, index):
            yield from (name for name in unset_in(word) if name not in known and name not in ALWAYS)
        else:
            yield from (found["plain"] for found in OF_KUBERNETES.finditer(word) if found["plain"] not in known)


def is_script(command: Sequence[str], index: int) -> bool:
    """Tell whether the word at this index of a command is the script that a shell gets by -c."""
    is_flag = index > 1 and re.fullmatch(r"-\w*c", command[index - 1])
    return bool(is_flag) and any(word.rpartition("/")[2] in SHELLS for word in command[: index - 1])


def used_in(script: str) -> list[str]:
    """Return the names of the variables that a script reads, in their order."""
    return [*dict.fromkeys(str(found["plain"] or found["braced"]) for found in USED.finditer(script))]


def unset_in(script: str) -> Iterator[str]:
    """Yield the names of the variables that a script reads before it has set them."""
    ends = [(found[1], found.end()) for pattern in (ASSIGNED, SET) for found in pattern.finditer(script)]
    for found in USED.finditer(script):
        name = found["plain"] or found["braced"]
        if not any(name == other and end <= found.start() for other, end in ends):
            yield name
