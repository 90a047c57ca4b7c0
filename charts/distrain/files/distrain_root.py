"""Make mpirun and ssh work in pods that run as root.

distrain-launch and distrain-worker run in any image, so this module uses only Python 3.6 and its standard library.
"""

import os
import shutil

# The user has chosen root with podSecurity or runAsUser.
ALLOW_MPIRUN = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def allow_mpirun() -> dict:
    """Return the variables with which mpirun runs.

    If the user is root, mpirun refuses to run unless two variables allow it.
    """
    return ALLOW_MPIRUN if os.getuid() == 0 else {}


def readable_by_user_alone(key: str, folder: str) -> str:
    """Return the path of the key, or of a copy that only the user can read.

    ssh and sshd refuse a key file that belongs to the current user and that others can read. The Secret's key is
    mounted as a file of root, and with fsGroup a group can read this file. So ssh refuses the mounted key only if the
    user is root, and only root needs a copy.
    """
    status = os.stat(key)
    if status.st_uid != os.getuid() or not status.st_mode & 0o077:
        return key
    copy = os.path.join(folder, os.path.basename(key))
    with open(key, "rb") as source, open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        shutil.copyfileobj(source, target)
    return copy
