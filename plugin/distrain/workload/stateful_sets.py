"""Read the claim templates of a StatefulSet, and name the claims that the StatefulSet's controller creates."""

from __future__ import annotations

from msgspec import Struct

from distrain import kube
from distrain.errors import ValuesError
from distrain.kube import form


class NumberedNames(Struct, frozen=True):
    """The names of objects such as data-web-0 and data-web-1, which consist of a prefix and consecutive numbers."""

    prefix: str = ""
    first: int = 0
    count: int = 0

    def __contains__(self, name: str) -> bool:
        number = name.removeprefix(self.prefix)
        is_number = name.startswith(self.prefix) and number.isascii() and number.isdecimal() and len(number) < 12
        is_written_so = is_number and number == str(int(number))
        return is_written_so and self.first <= int(number) < self.first + self.count


def claim_templates(name: str, spec: kube.WorkloadSpec) -> dict[str, kube.ClaimSpec]:
    """Return the claim templates of a StatefulSet by name; raise ValuesError if an amount is not a quantity."""
    found = {each.metadata.name: each.spec for each in spec.volume_claim_templates or ()}
    for template, claim in found.items():
        try:
            form.refuse_odd_amounts(claim)
        except ValueError as error:
            place = f"{name}: volumeClaimTemplates: {template}"
            raise ValuesError(f"{place}: {error}; write amounts such as 10Gi") from error
    return found
