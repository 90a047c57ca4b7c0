"""Tell from the name of a resource whether it is a vendor's GPU."""

from __future__ import annotations

import re

# nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, nvidia.com/mig-1g.5gb; nvidia.com/hostdev is a network card.
GPU = re.compile(r"gpu|^nvidia\.com/mig-")
