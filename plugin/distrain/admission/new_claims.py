"""Describe the persistent volume claims that are created for a job, to check them against quotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from distrain import kube
from distrain.workload.manifest import PodRole
from distrain.workload.wording import Wording


class NewClaims(Struct, frozen=True):
    """A number of equal claims.

    The claims are made from a role's claim template `name`; if there is no role, the manifest creates the claim `name`
    itself.

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
    """The claims that are created for a job, and the claims that are deleted together with the release's pods."""

    new: Sequence[NewClaims] = ()
    ending: Sequence[NewClaims] = ()
