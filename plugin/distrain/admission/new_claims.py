"""Describe the persistent volume claims that are created for a job, to check them against quotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from distrain import kube
from distrain.workload.manifest import PodRole
from distrain.workload.wording import Wording


class NewClaims(Struct, frozen=True):
    """A number of equal persistent volume claims.

    If `role` is set, a controller creates the claims from the role's claim template `name`. If `role` is None, there is
    one claim: the manifest contains this claim, and `name` is the claim's name.

    The storage class in `spec` is None if it is not known.
    """

    name: str
    spec: kube.ClaimSpec
    number: int = 1
    role: PodRole | None = None

    def place(self, say: Wording) -> str:
        """Return the value or field in which the user can change the claims."""
        return f"{say.place(self.role)}: volume {self.name}" if self.role else f"persistent volume claim {self.name}"


class ClaimChanges(Struct, frozen=True):
    """The persistent volume claims that a job changes.

    `new` are the claims that are created for the job. `ending` are the claims that Kubernetes deletes together with the
    release's present pods.
    """

    new: Sequence[NewClaims] = ()
    ending: Sequence[NewClaims] = ()
