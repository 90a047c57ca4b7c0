"""Load YAML wherever its comments and layout do not matter."""

from __future__ import annotations

import yaml

# The same as safe_load, in C where PyYAML was built with it: a manifest then takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
