"""Define how the chart is rendered while values are derived: without a release and without a cluster."""

from __future__ import annotations

from distrain.helm.render import Template

# The user's values have passed the schema, and the derived values satisfy the schema too.
UNINSTALLED = Template("derive", "default", None, has_valid_values=True, has_test=False)
