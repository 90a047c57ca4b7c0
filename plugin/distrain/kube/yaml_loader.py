"""Load YAML whose comments and layout do not matter."""

from __future__ import annotations

import yaml

# Same result as safe_load. If PyYAML has its C parser, a manifest takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
