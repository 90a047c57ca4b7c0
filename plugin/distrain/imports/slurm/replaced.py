"""Explain which options of sbatch have no value in the chart, and what replaces them.

Convert the variables of --export.
"""

from __future__ import annotations

from distrain.imports.draft import Draft
from distrain.imports.secrets import quoting

LOGS = "`helm distrain logs --save DIR` keeps the logs"
NODES = "name the nodes in workers.nodeSelector"
CPUS, RANKS = "set workers.cpu", "distrain starts a rank for each GPU, or one on CPUs"
TIMES = "set job.activeDeadlineSeconds"
BIND = "set it in mpi.flags if mpirun starts the ranks"
SUSPEND = "job.suspend holds back a run"
GPUS = "workers.gpus has the GPUs of a node; look at it"
MAIL = "distrain sends no mail; `helm distrain status` says how a run ended"
MEMORY = "set workers.memory"
# For each option of sbatch(1) in Slurm 22.05, what to use instead. The container options belong to pyxis.
INSTEAD = {
    "account": "name the queue in gang.queue",
    "array": "import a script of one job",
    "begin": SUSPEND,
    "clusters": "name the cluster with --kube-context",
    "chdir": "begin command with it: bash -c 'cd DIR && exec PROGRAM'",
    "comment": "write it into commonAnnotations",
    "constraint": NODES,
    "container": "name the image in image.repository",
    "container-mounts": "set volumes and volumeMounts",
    "container-workdir": "begin command with it: bash -c 'cd DIR && exec PROGRAM'",
    "contiguous": "set workers.topology",
    "cpu-bind": BIND,
    "cpus-per-gpu": CPUS,
    "cpus-per-task": CPUS,
    "dependency": SUSPEND,
    "distribution": BIND,
    "error": LOGS,
    "exclude": "name the nodes in workers.affinity",
    "exclusive": "ask for the GPUs, CPUs and memory of a whole node",
    "gid": "set securityContext.runAsGroup",
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task"), GPUS),
    "gpu type": NODES,
    "gpu-bind": BIND,
    "gres": f"{NODES}, or a device in workers.resources.limits",
    "hint": BIND,
    "hold": SUSPEND,
    "licenses": "the nodes grant no licenses; let the program ask the license server",
    "mail-type": MAIL,
    "mail-user": MAIL,
    "mem": MEMORY,
    "mem-bind": BIND,
    "mem-per-cpu": MEMORY,
    "mem-per-gpu": MEMORY,
    "mincpus": CPUS,
    "network": "set network",
    "no-requeue": "job.maxRestarts says how often a failed run starts again",
    "nodefile": NODES,
    "nodelist": NODES,
    "ntasks": RANKS,
    "ntasks-per-core": BIND,
    "ntasks-per-gpu": RANKS,
    "ntasks-per-node": RANKS,
    "ntasks-per-socket": BIND,
    "open-mode": LOGS,
    "output": LOGS,
    "partition": f"{NODES}, or the queue in gang.queue",
    "priority": "name a PriorityClass in priorityClassName",
    "nice": "name a PriorityClass in priorityClassName",
    "qos": "name a PriorityClass in priorityClassName",
    "requeue": "job.maxRestarts says how often a failed run starts again",
    "reservation": NODES,
    "signal": "the program gets SIGTERM; podSpec.terminationGracePeriodSeconds is the time that it then has",
    "switches": "set workers.topology",
    "time": f"it is no time of Slurm, such as 1-12:00:00; {TIMES}",
    "time-min": TIMES,
    "deadline": TIMES,
    "wait": "`helm distrain install --wait` waits",
    "wrap": "write the program of the ranks as command",
    "tmp": "set workers.resources.requests.ephemeral-storage",
    "uid": "set runAsUser",
}


def carry_exported(draft: Draft, variables: str, place: str) -> None:
    """Set the variables that --export lists.

    ALL and NONE have no effect, because no pod has the variables of sbatch's shell.
    """
    for word in filter(None, variables.split(",")):
        name, sign, value = word.partition("=")
        if sign and "$" not in value:
            draft.append(
                ("env",), [draft.credentials.env({"name": name, "value": value})], f"{place}: {quoting.key(name)}"
            )
        else:
            # Do not show the value. If the name is not valid, do not show it either: it is the rest of a value that
            # contains a comma.
            shown = f"{place}: {quoting.key(name)}" if name.isidentifier() else place
            draft.drop(shown, "no pod has the variables of the shell that ran sbatch; set them in env")
