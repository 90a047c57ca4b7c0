"""Read the cluster's location: --region, --zone, and the zone that the workers' nodeSelector names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from distrain.errors import ValuesError
from distrain.instances.table import AKS, EKS, GKE

# The default region, used if neither --region nor --zone is given. For EKS it is eksctl's default; for GKE and AKS it
# is the region in the first examples of their documentation.
DEFAULTS = {EKS: "us-west-2", GKE: "us-central1", AKS: "eastus"}
GKE_ZONE = "us-central1-a"
ZONES = {EKS: r"[a-z]{2}(-[a-z]+)+-\d+[a-z]", GKE: r"[a-z]+-[a-z]+\d+-[a-z]", AKS: r"[1-3]"}
REGIONS = {EKS: r"[a-z]{2}(-[a-z]+)+-\d+", GKE: r"[a-z]+-[a-z]+\d+", AKS: r"[a-z]+\d?"}
EXAMPLES = {EKS: "us-west-2a,us-west-2b", GKE: GKE_ZONE, AKS: "1"}


class Location(Struct, frozen=True):
    """A region and its zones. The GPU nodes are in the first zone. If `zones` is empty, the provider chooses a zone."""

    provider: str
    region: str
    zones: Sequence[str] = ()

    @property
    def zone_label(self) -> str:
        """Return the GPU nodes' label topology.kubernetes.io/zone; empty if the provider chooses the zone."""
        if not self.zones:
            return ""
        return f"{self.region}-{self.zones[0]}" if self.provider == AKS else self.zones[0]


def location(provider: str, region: str | None, zone: str | None) -> Location:
    """Return the cluster's location.

    Raise ValuesError if --region and --zone contradict each other or are not of this provider.
    """
    if region and not re.fullmatch(REGIONS[provider], region):
        raise ValuesError(f"--region: {region} is not a region of {provider}; write one such as {DEFAULTS[provider]}")
    if not zone:
        return _without_zone(provider, region)
    zones = zone.split(",")
    if wrong := [each for each in zones if not re.fullmatch(ZONES[provider], each)]:
        raise ValuesError(
            f'--zone: "{wrong[0]}" is not a zone of {provider}; write it as in --zone {EXAMPLES[provider]}'
        )
    _refuse_number(provider, zones)
    if provider == AKS:
        return Location(provider, region or DEFAULTS[provider], zones)
    of_zones = {each[:-1].removesuffix("-") for each in zones}
    found = region or sorted(of_zones)[0]
    if of_zones != {found}:
        raise ValuesError(f"--zone: not all zones in {zone} belong to the region {found}; name zones of one region")
    return Location(provider, found, zones)


def _refuse_number(provider: str, zones: Sequence[str]) -> None:
    if provider == EKS and len(set(zones)) < 2:
        words = "but eksctl needs two zones of a region; name first the zone of the GPU nodes, as in"
        raise ValuesError(f"--zone: found only {zones[0]}, {words} --zone {EXAMPLES[EKS]}")
    if provider != EKS and len(zones) > 1:
        raise ValuesError(f"--zone: found {len(zones)} zones, but all GPU nodes of a run must be in one zone; name one")


def _without_zone(provider: str, region: str | None) -> Location:
    if provider != GKE:
        return Location(provider, region or DEFAULTS[provider])
    if region and region != DEFAULTS[GKE]:
        words = f"is missing, but only some zones of {region} have GPU machines"
        raise ValuesError(f"--zone: {words}; name one of these, such as {region}-b")
    return Location(GKE, DEFAULTS[GKE], [GKE_ZONE])
