"""How YAML is read wherever only what it says counts."""

from __future__ import annotations

import yaml

# The same as safe_load, in C where PyYAML was built with it: a manifest then takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
