"""List the options that an import leaves out because distrain does their work, and say for each what distrain does."""

from __future__ import annotations

from distrain.imports.launch.known_options import ACCELERATE, DEEPSPEED, HOROVOD, MPI, SRUN, TORCH, names

# Options that set the number of ranks, of ranks per worker, or of workers.
SIZE = {
    MPI: names("np n c"),
    HOROVOD: names("np num-proc"),
    ACCELERATE: names("num-processes"),
    SRUN: names("n ntasks"),
}
PER_WORKER = {
    MPI: names("npernode N ppn perhost"),
    HOROVOD: names("slots-per-host"),
    TORCH: names("nproc-per-node"),
    DEEPSPEED: names("num-gpus num-accelerators"),
    SRUN: names("ntasks-per-node tasks-per-node"),
}
WORKERS = {
    TORCH: names("nnodes"),
    ACCELERATE: names("num-machines"),
    DEEPSPEED: names("num-nodes"),
    SRUN: names("N nodes"),
}
# Options of horovodrun's elastic mode.
ELASTIC = {"min-np", "min-num-proc", "max-np", "max-num-proc", "host-discovery-script"}
# Names of hostfiles that mpi-operator, ksonnet's openmpi and stable/horovod write.
HOSTFILES = ("/etc/mpi/hostfile", "/kubeflow/openmpi/assets/hostfile", "/horovod/generated/hostfile")
# Options with their values. distrain uses the same values itself, so leaving out such an option changes nothing.
SAME = {
    MPI: {("allow-run-as-root", ""), ("launcher", "ssh"), ("bootstrap", "ssh")}
    | {(name, file) for name in names("hostfile machinefile default-hostfile") for file in HOSTFILES},
    HOROVOD: {("mpi", ""), *(("hostfile", file) for file in HOSTFILES)},
    TORCH: {("rdzv-backend", "c10d")},
    ACCELERATE: {("rdzv-backend", "c10d")},
    DEEPSPEED: {(name, file) for name in ("H", "hostfile") for file in HOSTFILES},
}
HOSTS = "the operator, or for job.kind Plain the chart, lists the workers as hosts"
FIND = "distrain sets how the ranks find each other"
DEVICES = "distrain starts a rank for each of workers.gpus, or one on CPUs"
AMOUNTS = "the pods' size is in workers"
STARTS = "distrain starts the ranks"
PATH = "the chart starts mpirun of the image's PATH; put the folder first there"
SSH = "the launcher's key is in ssh.secretName, and the workers' sshd listens on ssh.port"
CONTAINER = "each pod is a container of its own"
UNKNOWN_WHY = (
    "the source does not say which options it holds; distrain starts the ranks and says how they find each other: set "
    "others that the run needs in mpi.flags or job"
)
ELASTIC_WHY = "there is no elastic mode; `helm distrain rescale` changes the size"


def _why(**reasons: str) -> dict[str, str]:
    """Map the name of each option to the reason why distrain does not use it.

    Each keyword argument has the name of one of this module's constants, which contains the reason. The argument's
    value is a text with the names of all options that are not used for this reason.
    """
    return {name: globals()[reason] for reason, options in reasons.items() for name in names(options)}


# For each program that starts ranks: the options that distrain replaces, and the reason. The empty name stands for the
# path of the program that starts the ranks.
WHY: dict[str, dict[str, str]] = {
    MPI: {
        "": PATH,
        "allow-run-as-root": STARTS,
        "pernode": DEVICES,
        **_why(HOSTS="H host hosts hostfile machinefile machine f default-hostfile", PATH="prefix noprefix"),
        **_why(STARTS="launcher launcher-exec bootstrap rmk"),
        **dict.fromkeys(("genvall", "envall"), "the ranks have the variables of their worker"),
    },
    HOROVOD: {
        "": "distrain calls mpirun of the image's PATH",
        **_why(HOSTS="H hosts hostfile", SSH="p ssh-port i ssh-identity-file"),
        **dict.fromkeys(ELASTIC, ELASTIC_WHY),
        "mpi": STARTS,
        "gloo": "mpirun starts the ranks here, and Horovod uses MPI",
        "verbose": "distrain calls mpirun, which has no such option",
        "disable-cache": "it is for horovodrun's own checks of the hosts",
    },
    TORCH: {
        "": STARTS,
        **_why(FIND="rdzv-backend rdzv-endpoint rdzv-id node-rank master-addr master-port standalone local-addr"),
        "use-env": "the ranks have LOCAL_RANK",
        "rdzv-conf": "distrain sets the time-outs of the rendezvous",
        "max-restarts": "job.maxRestarts says how often the ranks start again",
        "monitor-interval": "distrain watches the ranks",
    },
    ACCELERATE: {
        "": STARTS,
        **_why(FIND="machine-rank main-process-ip main-process-port rdzv-backend same-network"),
        **_why(DEVICES="multi-gpu gpu-ids use-cpu cpu"),
        "rdzv-conf": "distrain sets the time-outs of the rendezvous",
        "max-restarts": "job.maxRestarts says how often the ranks start again",
        "monitor-interval": "distrain watches the ranks",
    },
    DEEPSPEED: {
        "": STARTS,
        **_why(HOSTS="H hostfile", FIND="node-rank master-addr master-port", STARTS="launcher"),
    },
    SRUN: {
        "": STARTS,
        **_why(AMOUNTS="c cpus-per-task gpus gpus-per-node gpus-per-task G gres mem exclusive"),
        **_why(STARTS="K kill-on-bad-exit mpi wait W J job-name"),
        **dict.fromkeys(("t", "time"), "job.activeDeadlineSeconds ends the run"),
        **dict.fromkeys(("p", "partition"), "name the nodes in workers.nodeSelector, or the queue in gang.queue"),
        **dict.fromkeys(("l", "label", "u", "unbuffered"), "`helm distrain logs` shows each rank's lines"),
        "container-mounts": "set volumes and volumeMounts",
        "container-workdir": "begin command with it: bash -c 'cd DIR && exec PROGRAM'",
        **_why(CONTAINER="container-name container-save container-mount-home container-writable container-remap-root"),
    },
}
