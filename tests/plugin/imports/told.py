"""Tell whether a text of the source reaches the values file or the list of left-out values."""

from __future__ import annotations

import re

from distrain.imports.draft import Draft
from distrain.imports.ledger import Path, text
from tests.plugin.imports.comparison import spelled_out

# Fields that the import need not carry over: the run's name, and the uid, which the API server sets.
UNCARRIED = (("metadata", "name"), ("metadata", "uid"))


def is_told(path: Path, found: str, draft: Draft, file: str) -> bool:
    places = [each for place, _ in draft.lost for each in spelled_out(place)]
    # A place in the list may name only a part of a value: "spec.a.command[2]: mpirun" is a part of the value at
    # spec.a.command[2].
    if path in UNCARRIED or any(
        text(path).startswith(place) or place.startswith(f"{text(path)}: ") for place in places
    ):
        return True
    # The import carries a command over word by word, and lists the words that it leaves out. The import turns a
    # credential into a variable.
    told = file + "\n".join(f"{place} {why}" for place, why in draft.lost)
    words = [word for word in re.findall(r"zq\d+x", found) if not re.search(rf"S3cr3t-{word}", found)]
    return all(word in told for word in words) or ("S3cr3t-" in found and "secretKeyRef" in file)
