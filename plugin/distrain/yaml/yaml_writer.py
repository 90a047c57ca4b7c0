"""Write YAML that kubectl, Helm and PyYAML read in the same way.

PyYAML writes the texts `y` and `1e3` without quotes, but kubectl and Helm would read them as true and 1000.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from distrain.yaml.yaml_loader import FALSE, TRUE, number

# YAML 1.1 treats these characters as line breaks, but no editor shows them as such. These characters are escaped, so
# that the text stays on one line.
BREAKS = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        if BREAKS.search(text):
            return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')
        is_text = text not in TRUE | FALSE and isinstance(number(text), str)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_text else "'")


_Dumper.add_representer(str, _Dumper.represent_text)


class _BlockDumper(_Dumper):
    """Writes each text of several lines as a block, as people write scripts."""

    def represent_block(self, text: str) -> yaml.ScalarNode:
        if "\n" not in text or BREAKS.search(text):
            return self.represent_text(text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, "|")


_BlockDumper.add_representer(str, _BlockDumper.represent_block)


def dump(*documents: Any, blocks: bool = False, **options: Any) -> str:
    """Return the documents as YAML. `options` are PyYAML's options, for example for the width.

    The keys keep their order. With `blocks`, a text of several lines begins on its own line, below its key.
    """
    dumper = _BlockDumper if blocks else _Dumper
    return str(yaml.dump_all(documents, Dumper=dumper, sort_keys=False, **options))
