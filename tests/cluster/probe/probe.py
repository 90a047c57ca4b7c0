"""Check in a pod, without a framework, everything that a framework needs from this kind of job.

The probe reads the environment variables that the operator sets for each kind, and connects to all other pods of the
job. Then it prints one line of JSON: role, rank, job size, user, shared memory, file system and environment.
"""

import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

SECONDS_TO_MEET = 90


def main():
    role, rank, size = meet_by_environment(os.environ)
    print("probe: " + json.dumps({"role": role, "rank": rank, "size": size, **surroundings()}), flush=True)
    if role == "ps":
        # A parameter server runs until it is stopped. The kernel ignores SIGTERM for process 1 unless the process has a
        # handler.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        time.sleep(3600)


def meet_by_environment(env):
    if "OMPI_COMM_WORLD_RANK" in env:
        return "mpi", int(env["OMPI_COMM_WORLD_RANK"]), int(env["OMPI_COMM_WORLD_SIZE"])
    if "DMLC_ROLE" in env:
        return meet_mxnet(env)
    if "TF_CONFIG" in env:
        return meet_tensorflow(json.loads(env["TF_CONFIG"]))
    rank, size = int(env["RANK"]), int(env["WORLD_SIZE"])
    if "TORCHELASTIC_RUN_ID" not in env:  # If TORCHELASTIC_RUN_ID is set, torchrun has already connected the processes.
        meet(env["MASTER_ADDR"], int(env["MASTER_PORT"]), size, is_host=rank == 0)
    return "pytorch", rank, size


def meet_mxnet(env):
    size = 1 + int(env["DMLC_NUM_SERVER"]) + int(env["DMLC_NUM_WORKER"])
    role = env["DMLC_ROLE"]
    meet(env["DMLC_PS_ROOT_URI"], int(env["DMLC_PS_ROOT_PORT"]), size, is_host=role == "scheduler")
    return role, json.loads(env["MX_CONFIG"])["task"]["index"], size


def meet_tensorflow(config):
    """Connect to the address of every task in the cluster, as TensorFlow's servers do."""
    task, tasks = config["task"], [(role, host) for role, hosts in config["cluster"].items() for host in hosts]
    own = config["cluster"][task["type"]][task["index"]]
    with ThreadPoolExecutor(max_workers=len(tasks) + 1) as pool:
        served = pool.submit(serve, int(own.rpartition(":")[2]), len(tasks))
        list(pool.map(lambda other: visit(*split(other[1])), tasks))
        served.result()
    return task["type"], task["index"], len(tasks)


def meet(host, port, size, is_host):
    """Meet the other pods: the host listens at this address until all others have connected to it."""
    if is_host:
        serve(port, size - 1)
    else:
        visit(host, port)


def serve(port, visitors):
    """Accept `visitors` connections, and answer none of them before all have arrived."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(visitors + 1)
        listener.settimeout(SECONDS_TO_MEET)
        guests = [listener.accept()[0] for _ in range(visitors)]
        for guest in guests:
            guest.sendall(b"all are here")
            guest.close()


def visit(host, port):
    deadline = time.monotonic() + SECONDS_TO_MEET
    while True:
        try:
            with socket.create_connection((host, port), timeout=SECONDS_TO_MEET) as connection:
                if connection.recv(64) == b"all are here":
                    return
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"{host}:{port}: {error}")
        time.sleep(0.5)


def split(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


def surroundings():
    shm = os.statvfs("/dev/shm")
    return {
        "host": socket.gethostname(),
        "uid": os.getuid(),
        "shm": shm.f_frsize * shm.f_blocks,
        "root_is_writable": os.access("/", os.W_OK),
        "token": os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        "env": {
            name: value for name, value in os.environ.items() if name.startswith(("PROBE_", "AWS_REGION", "NCCL_"))
        },
    }


if __name__ == "__main__":
    main()
