"""What a pod needs that runs as root, as the images of others may.

Imported by distrain-launch and distrain-worker, in anyone's image: hence Python 3.6 and the standard library alone.
"""

import os
import shutil

# In a container root is whom the image was made for, as podSecurity already says.
ALLOW_MPIRUN = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def allow_mpirun() -> dict:
    """Return the environment in which mpirun runs as this user: it refuses root, unless told twice."""
    return ALLOW_MPIRUN if os.getuid() == 0 else {}


def readable_by_user_alone(key: str, folder: str) -> str:
    """Return the key's path, or a copy's: ssh and sshd refuse a key of the user's own that others may read.

    A mounted key belongs to root, so only root meets this: fsGroup lets its group read every mounted Secret.
    """
    status = os.stat(key)
    if status.st_uid != os.getuid() or not status.st_mode & 0o077:
        return key
    copy = os.path.join(folder, os.path.basename(key))
    with open(key, "rb") as source, open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        shutil.copyfileobj(source, target)
    return copy
