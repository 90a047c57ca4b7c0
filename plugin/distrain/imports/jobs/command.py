"""Convert the commands of a job to the command of the ranks, without mpirun or torchrun, and without credentials."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from distrain.imports.draft import Draft, Part
from distrain.imports.jobs.pod import Parts
from distrain.imports.jobs.spread import Role
from distrain.imports.launch import shell
from distrain.imports.launch.known_options import ACCELERATE, DEEPSPEED, MPI, TORCH
from distrain.imports.launch.options import Launch, carry_options, exported
from distrain.imports.launch.program import SILENT, Program, program_of
from distrain.imports.launch.starters import Option
from distrain.imports.ledger import Path, leaves
from distrain.imports.secrets import quoting
from distrain.values.placeholder import PROGRAM

# A worker of an MPIJob runs one of these programs to stay alive until mpirun connects.
IDLE = {"sshd", "sleep", "tail"}
# Commands that prepare sshd in a worker's script. distrain-worker does not need them.
SSHD_SETUP = {"mkdir", "ssh-keygen", "service", "chmod", "exec", "chown", "cp"}
COMMAND = ("command",)
LIMITS = ("workers", "resources", "limits")
# The names of RDMA and EFA devices.
RDMA = re.compile(r"rdma|efa$|hca|infiniband|/ib", re.IGNORECASE)


# Parts of a script whose effect depends on the pod that runs them, or on how often they run: command substitution, the
# host's name, output to a file.
ONCE = re.compile(r"\$\([^)]*[^)\w][^)]*\)|`[^`]*`|\$\{?HOSTNAME\}?|(?<![0-9<&])>{1,2}\s*[^\s&;|>]+")


class Commands:
    """The commands of a job's roles.

    They are converted in two steps. Between the steps, the variables of the pods are converted.
    """

    def __init__(self, draft: Draft, roles: Sequence[Role], parts: Mapping[str, Parts]) -> None:
        self._draft, self._roles, self._parts = draft, roles, parts
        self._first = max(roles, key=lambda role: (role.runs_mpi, role.section == "workers"))
        self._words = words_of(draft, self._first.place)
        self._program = program_of(self._words, _literals(draft.ledger.get((*self._first.place, "env"), [])))
        self._moved: list[tuple[dict[str, object], Path]] = []

    def move_exported(self) -> None:
        """Move variables that the ranks need from the launcher's env to the env of all pods.

        The ranks need the variables that mpirun passes on, and the variables that the command reads.
        """
        part = self._parts[self._first.section].get("env")
        if not (self._first.runs_mpi and part):
            return
        pairs = [*zip(part.value, part.paths, strict=True)]
        names = exported(self._program.options) | self._read([entry for entry, _ in pairs])
        self._moved = [pair for pair in pairs if pair[0].get("name") in names]
        kept = [pair for pair in pairs if pair[0].get("name") not in names]
        self._parts[self._first.section]["env"] = Part([each for each, _ in kept], tuple(path for _, path in kept))
        if not kept:
            del self._parts[self._first.section]["env"]

    def _read(self, entries: Sequence[dict[str, Any]]) -> set[str]:
        """Return the names of the launcher's variables that the command reads.

        In the chart, the ranks run this command, so they need these variables.
        """
        workers = self._parts["workers"].get("env")
        theirs = {each.get("name"): each for each in (workers.value if workers else ())}
        found, more = set[str](), " ".join(self._program.words)
        for entry in reversed(entries):
            name = str(entry.get("name"))
            if not re.search(rf"\$[({{]?{re.escape(name)}\b", more) or theirs.get(name) == entry:
                continue
            if name in theirs:
                words = "the command read the launcher's value; here it reads the workers'"
                self._draft.note(f"command: {quoting.key(name)}: {words}, which is another one")
            else:
                found.add(name)
                more += f" {entry.get('value', '')}"
        return found

    def carry(self) -> None:
        draft, role, program = self._draft, self._first, self._program
        for entry, path in self._moved:
            draft.append(("env",), [entry], draft.place(path))
            draft.know(path)
        words, variables = draft.credentials.words(program.words, self._variables())
        if not self._words or (role.runs_mpi and not program.words):
            self._missing(role)
        elif not draft.ledger.get((*role.place, "command")) and not program.starter and not self._is_shell():
            self._without_entrypoint(words)
        else:
            self._set(words, f", without {program.starter} and its options" if program.starter else "")
        self._settle(role, program)
        for entry in variables:
            draft.append(("env",), [entry], f"a credential in the command of the {role.name}")
        self._options(role, program)
        for other in self._roles:
            if other is not role:
                self._other(other)

    def _variables(self) -> set[str]:
        sections = ((), *((role.section,) for role in self._roles))
        entries = (entry for section in sections for entry in self._draft.value((*section, "env"), []))
        return {str(entry.get("name")) for entry in entries}

    def _is_shell(self) -> bool:
        return PurePosixPath(self._words[0]).name in ("sh", "bash", "python", "python3")

    def _set(self, words: list[str], how: str) -> None:
        draft, place = self._draft, self._first.place
        folder = str(draft.ledger.get((*place, "workingDir"), ""))
        if folder and not self._first.runs_mpi:
            words = ["sh", "-c", 'cd "$0" && exec "$@"', folder, *words]
            draft.know((*place, "workingDir"))
            how += ", in its workingDir"
        keys = [key for key in ("command", "args") if draft.ledger.get((*place, key))]
        draft.choose(COMMAND, words, " and ".join(draft.place((*place, key)) for key in keys) + how)

    def _missing(self, role: Role) -> None:
        draft = self._draft
        draft.choose(COMMAND, [PROGRAM], f"{draft.place(role.place)} has no command: it runs the image's")
        draft.note(_image_words(f"{draft.place(role.place)} has no command", draft))

    def _without_entrypoint(self, words: list[str]) -> None:
        draft, role = self._draft, self._first
        draft.choose(COMMAND, [PROGRAM, *words], f"{draft.place(role.place)}.args, behind the image's ENTRYPOINT")
        draft.note(_image_words(f"{draft.place(role.place)} has args alone", draft))

    def _settle(self, role: Role, program: Program) -> None:
        draft = self._draft
        draft.know((*role.place, "command"), (*role.place, "args"))
        place = draft.place(_longest(draft, role.place) if program.is_open else role.place)
        for words, why in program.left:
            draft.drop(f"{place}: {words}", why)
        if role.runs_mpi and program.starter:
            self._once(draft.place(role.place), program)
        if program.is_open and program.left:
            draft.note(f"command: write the program that each rank has to run in the place of {PROGRAM}")
        if role.runs_mpi and not program.starter and not program.is_open and self._words:
            draft.note(
                f"{draft.place(role.place)}: the launcher ran its command once; here each rank runs it. If it starts "
                "mpirun itself, write the program after mpirun as command"
            )

    def _once(self, place: str, program: Program) -> None:
        """Add a note about parts of the command that the launcher's shell ran once, such as output to a file.

        In the chart, each rank has its own shell, so each rank runs these parts. Also add a note if the ranks lose the
        variables that torchrun or a similar program sets.
        """
        script = shell.script_of(program.words)
        found = ONCE.findall(program.words[script]) if script is not None else []
        if found:
            words = "the launcher's shell did it once; here each rank does"
            self._draft.note(f"{place}: {', '.join(dict.fromkeys(map(_shown, found)))}: {words}")
        if program.starter in (TORCH, ACCELERATE, DEEPSPEED):
            words = f"{program.starter} gave the ranks RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR; mpirun gives none"
            self._draft.note(f"{place}: {words}: set job.kind to PyTorchJob if the program reads them")

    def _options(self, role: Role, program: Program) -> None:
        draft = self._draft
        folder = str(draft.ledger.get((*role.place, "workingDir"), ""))
        is_open_mpi = draft.ledger.get(("spec", "mpiImplementation"), "OpenMPI") == "OpenMPI"
        slots = max(1, draft.value(("workers", "gpus"), 0))
        launch = Launch(
            draft.place(role.place),
            draft.value(("workers", "replicas"), 1),
            slots,
            is_open_mpi=is_open_mpi,
        )
        options = program.options
        if folder and role.runs_mpi:
            options = (*options, *_working_dir(draft, role, folder, options))
        carry_options(draft, launch, options)
        if role.runs_mpi:
            self._rdma()

    def _sshd(self, words: list[str]) -> None:
        if "-p" in words[:-1] and words[words.index("-p") + 1] != "2222":
            port = words[words.index("-p") + 1]
            self._draft.note(
                f"ssh.port: the workers' sshd listened on {quoting.value(port)}, and listens on 2222 here; "
                f"distrain-launch knows"
            )

    def _rdma(self) -> None:
        """Let Open MPI choose the transport, as in the source, if the workers have RDMA devices.

        The chart's default transport would not use these devices.
        """
        draft = self._draft
        devices = [target[-1] for target in draft.settings if target[:3] == LIMITS and RDMA.search(target[-1])]
        given = {target[2] for target in draft.settings if target[:2] == ("mpi", "mca")}
        if devices and not {"pml", "btl"} & given:
            for key in ("pml", "btl"):
                why = f"the workers have {devices[0]}, and mpirun no --mca {key}: Open MPI chooses"
                draft.choose(("mpi", "mca", key), None, why)

    def _other(self, role: Role) -> None:
        """Report the command of another role as not imported if it differs from the command of the chart's pods."""
        draft = self._draft
        words = words_of(draft, role.place)
        paths = [(*role.place, key) for key in ("command", "args", "workingDir")]
        if role.section == "workers" and self._first.runs_mpi:
            if _is_idle(words):
                self._sshd(words)
                draft.know(*paths)
            draft.lose_all(paths, "distrain-worker takes the place of the workers' command")
            return
        if words == self._words:
            draft.know(*paths[:2])
            if draft.ledger.get(paths[2]) == draft.ledger.get((*self._first.place, "workingDir")):
                draft.know(paths[2])
        elif not words:
            draft.note(f"the {role.name} runs the image's own command there; here it runs command, as all pods do")
        draft.lose_all(paths, f"the {role.name} runs command, as all pods do")


def _shown(part: str) -> str:
    """Return a part of a script that the launcher's shell ran once, as text for a message.

    If the part is a command substitution such as $(hostname -i), the text shows only the program inside it.
    """
    inner = re.fullmatch(r"\$\((.*)\)|`(.*)`", part.strip())
    return f"$({quoting.line(inner[1] or inner[2])})" if inner else quoting.value(part.strip())


def _literals(entries: Sequence[Any]) -> dict[str, str]:
    """Return the values of a container's variables, except values that refer to other objects."""
    return {str(each.get("name")): str(each["value"]) for each in entries if each.get("value") is not None}


def _working_dir(draft: Draft, role: Role, folder: str, options: Sequence[Option]) -> tuple[Option, ...]:
    """Return mpirun's option that sets this working folder; return nothing if mpirun already has such an option."""
    given = [option.value for option in options if option.name in ("wd", "wdir")]
    if not given or given[0] == folder:
        draft.know((*role.place, "workingDir"))
    draft.lose((*role.place, "workingDir"), "mpirun's --wdir is the folder of the ranks")
    return () if given else (Option(MPI, "wdir", (folder,), 0),)


def words_of(draft: Draft, place: Path) -> list[str]:
    """Return the words of a container's command and args."""
    found = [draft.ledger.get((*place, key), []) for key in ("command", "args")]
    words = [str(word) for words in found for word in (words if isinstance(words, list) else [words])]
    # A single word that contains spaces cannot be a program's name, so it is read as a line for a shell.
    return shell.words_of(words[0]) if len(words) == 1 and " " in words[0].strip() else words


def _is_idle(words: list[str]) -> bool:
    """Tell whether a worker's command only runs sshd, or waits for mpirun."""
    script = shell.script_of(words)
    commands = shell.commands(words[script]) if script is not None else None
    if script is not None and not commands:
        return False
    names = [each.words[0].text for each in commands] if commands else words[:1]
    programs = [PurePosixPath(name).name for name in names]
    # Look at every word: `sshd` need not be the first word of the command, as in `exec sshd`.
    lines = [word.text for each in commands or () for word in each.words]
    waits = bool(IDLE & {PurePosixPath(word).name for word in (lines or words[:1])})
    return waits and set(programs) <= IDLE | SSHD_SETUP | SILENT


def _longest(draft: Draft, place: Path) -> Path:
    """Return the path of the longest word in a container's command and args.

    In a shell's command, this is the script.
    """
    paths = [path for key in ("command", "args") for path in leaves(draft.ledger.get((*place, key)), (*place, key))]
    return max(paths, key=lambda path: len(str(draft.ledger.get(path))), default=place)


def _image_words(finding: str, draft: Draft) -> str:
    name = draft.value(("image", "repository"), "IMAGE")
    tag = draft.value(("image", "tag"), "")
    shown = shlex.quote(quoting.value(f"{name}:{tag}" if tag else name))
    look = f"docker image inspect -f '{{{{.Config.Entrypoint}}}} {{{{.Config.Cmd}}}}' {shown}"
    words = "so it runs the image's program, which the source does not name: write it in the place of"
    return f"{finding}, {words} {PROGRAM} ({look})"
