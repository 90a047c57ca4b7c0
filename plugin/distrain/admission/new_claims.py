"""Describe the persistent volume claims that are created for a job, to check them against quotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from distrain import kube
from distrain.workload.manifest import PodRole
from distrain.workload.wording import Wording


class NewClaims(Struct, frozen=True):
    """A number of equal persistent volume claims.

    With a `role`, a controller creates the claims from the role's claim template `name`. Without a `role`, the manifest
    contains the claim, and `name` is the claim's name.

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
    """The new claims that are created for a job, and the ending claims that are deleted with the release's pods."""

    new: Sequence[NewClaims] = ()
    ending: Sequence[NewClaims] = ()
