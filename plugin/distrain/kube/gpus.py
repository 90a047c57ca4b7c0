"""Tell from the name of a resource whether it is a vendor's GPU."""

from __future__ import annotations

import re

# Matches nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915 and nvidia.com/mig-1g.5gb, but not nvidia.com/hostdev, which
# is a network card.
GPU = re.compile(r"gpu|^nvidia\.com/mig-")
