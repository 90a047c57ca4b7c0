"""Write YAML that kubectl, Helm and PyYAML read alike.

PyYAML writes the texts `y` and `1e3` without quotes, which kubectl and Helm read as true and 1000.
"""

from __future__ import annotations

from typing import Any

import yaml

from distrain.yaml.yaml_loader import FALSE, TRUE, number


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        is_text = text not in TRUE | FALSE and isinstance(number(text), str)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_text else "'")


_Dumper.add_representer(str, _Dumper.represent_text)


def dump(*documents: Any, **options: Any) -> str:
    """Return the documents as YAML, with PyYAML's options for their form; keys keep their order."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, **options))
